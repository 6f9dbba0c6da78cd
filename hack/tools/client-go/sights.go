package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

const (
	gone  = "gone"
	steps = "step" // the label that each write changes
	look  = 5 * time.Millisecond
)

// sight is what one informer saw: its events by name, and the version that was told last.
type sight struct {
	sort     string
	informer cache.SharedIndexInformer
	lock     sync.Mutex
	events   map[string][]string
	last     map[string]string
}

// watchAll starts a dynamic, a typed and a metadata informer for each resource, and waits for them.
func watchAll(
	ctx context.Context, c *clients, namespace string, resources []schema.GroupVersionResource,
) (map[schema.GroupVersionResource][]*sight, error) {
	plain := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, 0, namespace, nil)
	typed := informers.NewSharedInformerFactoryWithOptions(
		c.typed, 0, informers.WithNamespace(namespace))
	names := metadatainformer.NewFilteredSharedInformerFactory(c.metadata, 0, namespace, nil)
	found := map[schema.GroupVersionResource][]*sight{}
	for _, resource := range resources {
		oneTyped, err := typed.ForResource(resource)
		if err != nil {
			return nil, err
		}
		for sort, informer := range map[string]informers.GenericInformer{
			"dynamic":  plain.ForResource(resource),
			"typed":    oneTyped,
			"metadata": names.ForResource(resource),
		} {
			one, err := newSight(sort, informer.Informer())
			if err != nil {
				return nil, err
			}
			found[resource] = append(found[resource], one)
		}
	}
	plain.Start(ctx.Done())
	typed.Start(ctx.Done())
	names.Start(ctx.Done())
	for resource, sights := range found {
		for _, one := range sights {
			if !cache.WaitForCacheSync(ctx.Done(), one.informer.HasSynced) {
				return nil, fmt.Errorf("%s: the %s informer has not synced", resource, one.sort)
			}
		}
	}
	return found, nil
}

func newSight(sort string, informer cache.SharedIndexInformer) (*sight, error) {
	s := &sight{sort: sort, informer: informer, events: map[string][]string{}, last: map[string]string{}}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.saw("ADDED", obj) },
		UpdateFunc: func(_, obj any) { s.saw("MODIFIED", obj) },
		DeleteFunc: func(obj any) { s.saw("DELETED", obj) },
	})
	return s, err
}

func (s *sight) saw(event string, obj any) {
	if lost, isLost := obj.(cache.DeletedFinalStateUnknown); isLost {
		event, obj = "LOST", lost.Obj
	}
	found, err := meta.Accessor(obj)
	if err != nil {
		panic(err)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	name, version := found.GetName(), found.GetResourceVersion()
	if event == "MODIFIED" && s.last[name] == version {
		return
	}
	s.last[name] = version
	if event == "DELETED" || event == "LOST" {
		s.last[name] = gone
	}
	s.events[name] = append(s.events[name], event+" "+found.GetLabels()[steps])
}

// wait returns once it saw this version, or for "gone" that the object is deleted or waits for
// its finalizers.
func (s *sight) wait(ctx context.Context, key, name, version string) error {
	for {
		s.lock.Lock()
		last := s.last[name]
		s.lock.Unlock()
		if last == version || (version == gone && s.isFinalized(key)) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: the %s informer did not see %s, but %s", key, s.sort, version, last)
		case <-time.After(look):
		}
	}
}

func (s *sight) isFinalized(key string) bool {
	obj, isThere, _ := s.informer.GetStore().GetByKey(key)
	if !isThere {
		return false // its event comes
	}
	found, err := meta.Accessor(obj)
	return err == nil && found.GetDeletionTimestamp() != nil && len(found.GetFinalizers()) > 0
}

// stored returns the object that the informer has.
func (s *sight) stored(key string) any {
	obj, isThere, err := s.informer.GetStore().GetByKey(key)
	if err != nil || !isThere {
		return &metav1.Status{Message: "not in the store"}
	}
	return obj
}

func (s *sight) eventsOf(name string) []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]string{}, s.events[name]...)
}
