package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// Prints objects of each kind, one empty and one with all fields, in both forms of Kubernetes' own
// code.
func printExamples() {
	var kinds []schema.GroupVersionKind
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if isRead(gvk, t) {
			kinds = append(kinds, gvk)
		}
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].String() < kinds[j].String() })
	fmt.Println("[")
	for i, gvk := range kinds {
		empty, err := scheme.Scheme.New(gvk)
		check(err)
		full, err := scheme.Scheme.New(gvk)
		check(err)
		fill(reflect.ValueOf(full).Elem(), new(int))
		fmt.Println(example(gvk, empty) + ",")
		last := ","
		if i == len(kinds)-1 {
			last = ""
		}
		fmt.Println(example(gvk, full) + last)
	}
	fmt.Println("]")
}

func example(gvk schema.GroupVersionKind, obj runtime.Object) string {
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	raw := &bytes.Buffer{}
	check(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, raw))
	line, err := json.Marshal([]any{base64.StdEncoding.EncodeToString(raw.Bytes()), obj})
	check(err)
	return string(line)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Puts another value into each field; next counts them.
func fill(v reflect.Value, next *int) {
	*next++
	n := *next
	switch at := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.Time:
		*at = metav1.Unix(int64(1_700_000_000+n), 0)
		return
	case *metav1.MicroTime:
		*at = metav1.NewMicroTime(time.Unix(int64(1_700_000_000+n), 123_000).UTC())
		return
	case *metav1.FieldsV1:
		at.Raw = []byte(`{"f:a":{}}`)
		return
	case *runtime.RawExtension:
		at.Raw = []byte(`{"a":1}`)
		return
	case *resource.Quantity:
		*at = *resource.NewQuantity(int64(n), resource.DecimalSI)
		return
	case *intstr.IntOrString:
		*at = intstr.FromInt32(int32(n))
		if n%2 == 0 {
			*at = intstr.FromString(fmt.Sprint(n, "%"))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), next)
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, next)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(fmt.Sprint("k", n)).Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString(fmt.Sprint("s", n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(uint64(n % 256))
	default:
		v.SetInt(int64(-n))
	}
}
