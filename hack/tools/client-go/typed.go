package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// useTyped does what controllers do by typed clients, in protobuf.
func useTyped(ctx context.Context, c *clients, do task, found told) error {
	if err := useDeployments(ctx, c, do, found); err != nil {
		return err
	}
	if err := useCollection(ctx, c, do, found); err != nil {
		return err
	}
	if err := tellEvent(ctx, c, do, found); err != nil {
		return err
	}
	return lead(ctx, c, do, found)
}

// useDeployments writes a whole Deployment, its status and its scale.
func useDeployments(ctx context.Context, c *clients, do task, found told) error {
	client, kind := c.typed.AppsV1().Deployments(do.Namespace), "Deployment"
	deployment := &appsv1.Deployment{}
	for _, obj := range do.Objects {
		if obj.GetKind() == kind {
			if err := convert(obj, deployment); err != nil {
				return err
			}
		}
	}
	deployment.Name = do.Name + "-typed"
	made, err := client.Create(ctx, deployment, metav1.CreateOptions{})
	found.add(kind, "typed create", either(made, err))
	if err != nil {
		return err
	}
	made.Status.Replicas = 1
	made, err = client.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	found.add(kind, "typed update of the status", either(made, err))
	scale, err := client.GetScale(ctx, deployment.Name, metav1.GetOptions{})
	found.add(kind, "get scale", either(scale, err))
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 2
	scale, err = client.UpdateScale(ctx, deployment.Name, scale, metav1.UpdateOptions{})
	found.add(kind, "update scale", either(scale, err))
	return client.Delete(ctx, deployment.Name, metav1.DeleteOptions{})
}

// useCollection deletes several ConfigMaps at once, by their label.
func useCollection(ctx context.Context, c *clients, do task, found told) error {
	client, of := c.typed.CoreV1().ConfigMaps(do.Namespace), map[string]string{"of": do.Name}
	for n := range 3 {
		one := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", do.Name, n), Labels: of},
		}
		if _, err := client.Create(ctx, one, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	these := metav1.ListOptions{LabelSelector: "of=" + do.Name}
	for _, name := range []string{"before a collection is deleted", "after it"} {
		list, err := client.List(ctx, these)
		if err != nil {
			return err
		}
		found.add("ConfigMap", name, len(list.Items))
		if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, these); err != nil {
			return err
		}
	}
	return nil
}

// outcome is a sink of Events that tells what became of the first one.
type outcome struct {
	record.EventSink
	first chan any
}

func (o outcome) Create(event *corev1.Event) (*corev1.Event, error) {
	made, err := o.EventSink.Create(event)
	var answer any = shown(err)
	if err == nil {
		answer = []any{made.Namespace, made.InvolvedObject, made.Reason, made.Message, made.Source}
	}
	select {
	case o.first <- answer:
	default:
	}
	return made, err
}

// tellEvent records an Event.
func tellEvent(ctx context.Context, c *clients, do task, found told) error {
	about := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: do.Namespace, Name: do.Name, UID: "x",
	}
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	sink := &typedcorev1.EventSinkImpl{Interface: c.typed.CoreV1().Events("")}
	first := make(chan any, 1)
	broadcaster.StartRecordingToSink(outcome{sink, first})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: manager})
	recorder.Event(about, corev1.EventTypeNormal, "Tested", "it was tested")
	select {
	case answer := <-first:
		found.add("Event", "of a recorder", answer)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// renewing tells when a lead was renewed: no request is under way then that a resignation would
// cancel, and the server take all the same.
type renewing struct {
	resourcelock.Interface
	renewed func()
}

func (r renewing) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := r.Interface.Update(ctx, record)
	if err == nil {
		r.renewed()
	}
	return err
}

// lead takes a lead by a Lease, renews it once, and gives it back.
func lead(ctx context.Context, c *clients, do task, found told) error {
	name := do.Name + "-lead"
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: do.Namespace, Name: name},
		Client:     c.typed.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: manager},
	}
	leading, resign := context.WithCancel(ctx)
	defer resign()
	states := []string{}
	leaderelection.RunOrDie(leading, leaderelection.LeaderElectionConfig{
		Lock:          renewing{Interface: lock, renewed: resign},
		LeaseDuration: time.Minute, RenewDeadline: 30 * time.Second,
		RetryPeriod: time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() { states = append(states, "stopped") },
			OnNewLeader:      func(string) {},
		},
	})
	lease, err := lock.Client.Leases(do.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	found.add("Lease", "lead", map[string]any{
		"states": states, "holder": lease.Spec.HolderIdentity,
		"transitions": lease.Spec.LeaseTransitions,
	})
	return lock.Client.Leases(do.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

func convert(obj *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, into)
}

func either(answer any, err error) any {
	if err != nil {
		return shown(err)
	}
	return answer
}
