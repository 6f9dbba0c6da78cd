package main

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"
)

// use is the use of one kind.
type use struct {
	kind   string
	key    string
	name   string
	client dynamic.ResourceInterface
	sights []*sight
	found  told
}

// useKinds has informers of all kinds, and makes, changes and deletes an object of each.
func useKinds(ctx context.Context, c *clients, do task, found told) error {
	resources := make([]schema.GroupVersionResource, len(do.Objects))
	for n, obj := range do.Objects {
		resource, err := c.resourceOf(obj)
		if err != nil {
			return err
		}
		resources[n] = resource
		found.add(obj.GetKind(), "mapping", resource.String())
	}
	sights, err := watchAll(ctx, c, do.Namespace, resources)
	if err != nil {
		return err
	}
	for n, obj := range do.Objects {
		u := &use{
			kind:   obj.GetKind(),
			key:    do.Namespace + "/" + do.Name,
			name:   do.Name,
			client: c.dynamic.Resource(resources[n]).Namespace(do.Namespace),
			sights: sights[resources[n]],
			found:  found,
		}
		if err := u.all(ctx, do.Namespace, obj); err != nil {
			return err
		}
	}
	return nil
}

func (u *use) all(ctx context.Context, namespace string, obj *unstructured.Unstructured) error {
	for _, one := range u.sights {
		u.tell("informed of what is there, "+one.sort, one.stored(namespace+"/"+obj.GetName()))
	}
	if err := u.list(ctx); err != nil {
		return err
	}
	_, err := u.client.Get(ctx, "missing", metav1.GetOptions{})
	u.tell("get what is missing", err)
	made := obj.DeepCopy()
	made.SetName(u.name)
	for _, step := range []func(context.Context, *unstructured.Unstructured) error{
		u.create, u.update, u.patch, u.apply, u.remove,
	} {
		if err := step(ctx, made); err != nil {
			return err
		}
	}
	for _, one := range u.sights {
		u.tell("events, "+one.sort, one.eventsOf(u.name))
	}
	return nil
}

func (u *use) list(ctx context.Context) error {
	pages := pager.New(pager.SimplePageFunc(func(options metav1.ListOptions) (runtime.Object, error) {
		return u.client.List(ctx, options)
	}))
	pages.PageSize = 1
	items := []map[string]string{}
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		found, err := meta.Accessor(obj)
		items = append(items, map[string]string{"name": found.GetName()})
		return err
	})
	u.tell("list page by page", map[string]any{"items": items})
	return err
}

func (u *use) create(ctx context.Context, made *unstructured.Unstructured) error {
	answer, err := u.client.Create(ctx, made, metav1.CreateOptions{})
	if err := u.written(ctx, "create", answer, err); err != nil {
		return err
	}
	_, err = u.client.Create(ctx, made, metav1.CreateOptions{})
	u.tell("create again", err)
	return nil
}

// update changes what an informer has, as controllers do, and then what is old.
func (u *use) update(ctx context.Context, made *unstructured.Unstructured) error {
	old, err := u.client.Get(ctx, u.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed := old.DeepCopy()
	setStep(changed, "update")
	answer, err := u.client.Update(ctx, changed, metav1.UpdateOptions{})
	if err := u.written(ctx, "update", answer, err); err != nil {
		return err
	}
	_, err = u.client.Update(ctx, old, metav1.UpdateOptions{})
	u.tell("update what is old", err)
	return nil
}

func (u *use) patch(ctx context.Context, _ *unstructured.Unstructured) error {
	for _, how := range []types.PatchType{
		types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType,
	} {
		var body any = map[string]any{
			"metadata": map[string]any{"labels": map[string]string{steps: label(how)}},
		}
		if how == types.JSONPatchType {
			body = []map[string]string{
				{"op": "replace", "path": "/metadata/labels/" + steps, "value": label(how)},
			}
		}
		content, err := json.Marshal(body)
		if err != nil {
			return err
		}
		answer, err := u.client.Patch(ctx, u.name, how, content, metav1.PatchOptions{})
		if err := u.written(ctx, "patch by "+label(how), answer, err); err != nil {
			return err
		}
	}
	return nil
}

func (u *use) apply(ctx context.Context, made *unstructured.Unstructured) error {
	applied := &unstructured.Unstructured{Object: map[string]any{}}
	applied.SetGroupVersionKind(made.GroupVersionKind())
	applied.SetName(u.name)
	setStep(applied, "apply")
	options := metav1.ApplyOptions{FieldManager: manager + "-apply", Force: true}
	answer, err := u.client.Apply(ctx, u.name, applied, options)
	if err := u.written(ctx, "apply", answer, err); err != nil {
		return err
	}
	for _, one := range u.sights {
		u.tell("informed of the last change, "+one.sort, one.stored(u.key))
	}
	return nil
}

func (u *use) remove(ctx context.Context, _ *unstructured.Unstructured) error {
	later := metav1.DeletePropagationBackground
	err := u.client.Delete(ctx, u.name, metav1.DeleteOptions{PropagationPolicy: &later})
	u.tell("delete", err)
	if err != nil {
		return err
	}
	if err := u.seen(ctx, gone); err != nil {
		return err
	}
	_, err = u.client.Get(ctx, u.name, metav1.GetOptions{})
	u.tell("get what is deleted", err)
	return nil
}

// written tells the answer to a write, and returns once all informers saw it.
func (u *use) written(
	ctx context.Context, name string, answer *unstructured.Unstructured, err error,
) error {
	if err != nil {
		u.tell(name, err)
		return err
	}
	u.tell(name, answer)
	return u.seen(ctx, answer.GetResourceVersion())
}

func (u *use) seen(ctx context.Context, version string) error {
	for _, one := range u.sights {
		if err := one.wait(ctx, u.key, u.name, version); err != nil {
			return err
		}
	}
	return nil
}

func (u *use) tell(name string, value any) {
	u.found.add(u.kind, name, shown(value))
}

// shown returns an answer, and of an error the Status that it was answered with.
func shown(value any) any {
	err, isError := value.(error)
	if !isError {
		return value
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status()
	}
	return err.Error()
}

func setStep(obj *unstructured.Unstructured, step string) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[steps] = step
	obj.SetLabels(labels)
}

func label(how types.PatchType) string {
	return map[types.PatchType]string{
		types.JSONPatchType:           "json",
		types.MergePatchType:          "merge",
		types.StrategicMergePatchType: "strategic",
	}[how]
}
