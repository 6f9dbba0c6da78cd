// Prints which field of Kubernetes' types has which number in protobuf; with an argument, objects
// of these types in both forms. See hack/update-protobuf.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// The types whose JSON is another one than their fields say.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "micro-time",
	reflect.TypeFor[metav1.Duration]():      "duration",
	reflect.TypeFor[metav1.FieldsV1]():      "json",
	reflect.TypeFor[runtime.RawExtension](): "json",
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[intstr.IntOrString]():   "int-or-string",
}

var stable = regexp.MustCompile(`^v[0-9]+$`)

type marshaler interface{ Marshal() ([]byte, error) }

var messages = map[string]map[string][]string{}

func main() {
	if len(os.Args) > 1 {
		printExamples()
		return
	}
	kinds := map[string]string{}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if isRead(gvk, t) {
			kinds[gvk.GroupVersion().String()+"/"+gvk.Kind] = message(t)
		}
	}
	kinds["DeleteOptions"] = message(reflect.TypeFor[metav1.DeleteOptions]()) // of any group
	write(kinds)
}

// Whether it is a body: lists and the options of requests are not.
func isRead(gvk schema.GroupVersionKind, t reflect.Type) bool {
	kind := gvk.Kind
	return stable.MatchString(gvk.Version) && isMessage(t) &&
		!strings.HasSuffix(kind, "List") && !strings.HasSuffix(kind, "Options") &&
		kind != "WatchEvent" && kind != "Status"
}

func message(t reflect.Type) string {
	name := strings.ReplaceAll(strings.TrimPrefix(t.PkgPath(), "k8s.io/"), "/", ".") + "." + t.Name()
	name = strings.NewReplacer("api.", "", "apimachinery.pkg.apis.", "").Replace(name)
	if _, known := messages[name]; known {
		return name
	}
	fields := map[string][]string{}
	messages[name] = fields
	for i := range t.NumField() {
		field := t.Field(i)
		tag, found := field.Tag.Lookup("protobuf")
		if !found {
			if field.Type != reflect.TypeFor[metav1.TypeMeta]() && field.Type.Kind() != reflect.Func {
				panic(fmt.Sprintf("%s.%s has no number", name, field.Name))
			}
			continue
		}
		parts := strings.Split(field.Tag.Get("json"), ",")
		entry := []string{parts[0], code(field.Type)}
		if drops(field.Type, parts[1:]) {
			entry = append(entry, "drop-zero")
		}
		fields[strings.Split(tag, ",")[1]] = entry
	}
	return name
}

func drops(t reflect.Type, options []string) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Struct:
		return false
	}
	for _, option := range options {
		if option == "omitempty" || option == "omitzero" {
			return true
		}
	}
	return false
}

func code(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isMessage(t) || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return value(t)
	}
	switch t.Kind() {
	case reflect.Slice:
		return "[" + value(t.Elem())
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(t.String())
		}
		return "{" + value(t.Elem())
	}
	return value(t)
}

func isMessage(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[marshaler]())
}

func value(t reflect.Type) string {
	if name, found := special[t]; found {
		return name
	}
	if t.Kind() == reflect.Pointer {
		return value(t.Elem())
	}
	if isMessage(t) && t.Kind() == reflect.Slice { // such as ExtraValue: a message around a list
		return "(" + value(t.Elem())
	}
	if isMessage(t) {
		return message(t)
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64, reflect.Int:
		return "int"
	case reflect.Float64:
		return "double"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
	}
	panic("no way to say " + t.String())
}

// One message a line, so that a change of Kubernetes is a small change of the file.
func write(kinds map[string]string) {
	out := os.Stdout
	fmt.Fprintln(out, `{"kinds": {`)
	lines(kinds)
	fmt.Fprintln(out, `}, "messages": {`)
	lines(messages)
	fmt.Fprintln(out, "}}")
}

func lines[T any](from map[string]T) {
	keys := make([]string, 0, len(from))
	for key := range from {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for i, key := range keys {
		text, err := json.Marshal(from[key])
		if err != nil {
			panic(err)
		}
		comma := ","
		if i == len(keys)-1 {
			comma = ""
		}
		fmt.Printf("%q: %s%s\n", key, text, comma)
	}
}
