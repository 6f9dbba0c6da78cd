// Command client-go-user does in one namespace what controllers do that are written with
// client-go, and prints as JSON what it was answered and what its informers saw.
//
// It reads a task from standard input, and the cluster from KUBECONFIG.
// KUBE_FEATURE_WatchListClient says how informers begin: by watch-list, or by list and watch.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	manager  = "client-go-user"
	protobuf = "application/vnd.kubernetes.protobuf"
	patience = 2 * time.Minute
)

// task is what to do: Objects are there, one of each kind; copies of them are made by Name.
type task struct {
	Namespace string                       `json:"namespace"`
	Name      string                       `json:"name"`
	Objects   []*unstructured.Unstructured `json:"objects"`
}

// clients are those of one cluster. typed sends and accepts protobuf, as controllers do.
type clients struct {
	typed    kubernetes.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
	mapper   meta.RESTMapper
	requests *requests
}

// told is kind -> case -> what was answered or seen.
type told map[string]map[string]any

func (t told) add(kind, name string, value any) {
	if t[kind] == nil {
		t[kind] = map[string]any{}
	}
	t[kind][name] = value
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var do task
	if err := json.NewDecoder(os.Stdin).Decode(&do); err != nil {
		return err
	}
	c, err := connect(os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	found := told{}
	if err := useKinds(ctx, c, do, found); err != nil {
		return err
	}
	if err := useTyped(ctx, c, do, found); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"told": found, "informers": c.requests.count(),
	})
}

func connect(kubeconfig string) (*clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.UserAgent = manager
	c := &clients{requests: &requests{}}
	config.Wrap(c.requests.wrap)
	inProtobuf := rest.CopyConfig(config)
	inProtobuf.ContentType = protobuf
	inProtobuf.AcceptContentTypes = protobuf + ",application/json"
	if c.typed, err = kubernetes.NewForConfig(inProtobuf); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.metadata, err = metadata.NewForConfig(inProtobuf); err != nil {
		return nil, err
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(found)
	if err != nil {
		return nil, err
	}
	c.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	return c, nil
}

// resourceOf maps the kind of an object by what the cluster says that it serves.
func (c *clients) resourceOf(obj *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	kind := obj.GroupVersionKind()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return schema.GroupVersionResource{}, fmt.Errorf("%s has no namespace", kind)
	}
	return mapping.Resource, nil
}
