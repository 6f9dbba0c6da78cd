package main

import (
	"reflect"

	"k8s.io/apiserver/pkg/cel/environment"
)

// baseEnvironment returns what a server of this minor has for new expressions. By reflection:
// Kubernetes 1.31 to 1.34 ask for a second argument, whether costs are strict, and the others do
// not.
func baseEnvironment() *environment.EnvSet {
	base := reflect.ValueOf(environment.MustBaseEnvSet)
	arguments := []reflect.Value{reflect.ValueOf(environment.DefaultCompatibilityVersion())}
	if base.Type().NumIn() > 1 {
		arguments = append(arguments, reflect.ValueOf(true))
	}
	return base.Call(arguments)[0].Interface().(*environment.EnvSet)
}
