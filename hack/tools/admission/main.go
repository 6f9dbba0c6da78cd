// What an API server of one Kubernetes minor refuses at once: of each file the
// CustomResourceDefinitions (structural schemas, CEL rules and what they may cost) and the
// ValidatingAdmissionPolicies (their CEL), judged by the libraries that go.mod, or the -modfile
// beside it, names. Prints a line for each error; exit code 1 where there is one.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// expression is what the compiler of policies takes.
type expression struct {
	name, text string
	returns    *cel.Type
}

func (e expression) GetName() string          { return e.name }
func (e expression) GetExpression() string    { return e.text }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{e.returns} }

func main() {
	decoder := kinds()
	problems := 0
	for _, file := range os.Args[1:] {
		found, err := problemsOf(file, decoder)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			os.Exit(2)
		}
		for _, problem := range found {
			fmt.Printf("%s: %s\n", file, problem)
		}
		problems += len(found)
	}
	if problems > 0 {
		os.Exit(1)
	}
}

// kinds returns a decoder of what is judged; unknown fields are errors, defaults are set.
func kinds() runtime.Decoder {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	if err := admissionv1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(
		admissionv1.SchemeGroupVersion, apiextensions.SchemeGroupVersion)
}

func problemsOf(file string, decoder runtime.Decoder) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var problems []string
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return problems, nil
		}
		if err != nil {
			return nil, err
		}
		object, _, err := decoder.Decode(document, nil, nil)
		switch {
		case runtime.IsNotRegisteredError(err), runtime.IsMissingKind(err):
			continue
		case err != nil:
			problems = append(problems, err.Error())
		default:
			problems = append(problems, refusals(object)...)
		}
	}
}

func refusals(object runtime.Object) []string {
	switch judged := object.(type) {
	case *apiextensions.CustomResourceDefinition:
		return ofDefinition(judged)
	case *admissionv1.ValidatingAdmissionPolicy:
		return ofPolicy(judged)
	}
	return nil
}

func ofDefinition(definition *apiextensions.CustomResourceDefinition) []string {
	for _, version := range definition.Spec.Versions {
		if version.Storage {
			definition.Status.StoredVersions = []string{version.Name} // as on creation
		}
	}
	var problems []string
	for _, err := range validation.ValidateCustomResourceDefinition(
		context.Background(), definition) {
		problems = append(problems, definition.Name+": "+err.Error())
	}
	return problems
}

func ofPolicy(policy *admissionv1.ValidatingAdmissionPolicy) []string {
	compiler, err := admissioncel.NewCompositedCompiler(baseEnvironment())
	if err != nil {
		panic(err)
	}
	var problems []string
	note := func(place string, result admissioncel.CompilationResult) {
		if result.Error != nil {
			problems = append(problems, fmt.Sprintf("%s: %s: %v", policy.Name, place, result.Error))
		}
	}
	variables := admissioncel.OptionalVariableDeclarations{
		HasParams: policy.Spec.ParamKind != nil, HasAuthorizer: true}
	compile := func(place, text string, returns *cel.Type) {
		if text != "" {
			note(place, compiler.CompileCELExpression(
				expression{text: text, returns: returns}, variables, environment.NewExpressions))
		}
	}
	for _, variable := range policy.Spec.Variables {
		named := expression{variable.Name, variable.Expression, cel.AnyType}
		note("variable "+variable.Name,
			compiler.CompileAndStoreVariable(named, variables, environment.NewExpressions))
	}
	for _, condition := range policy.Spec.MatchConditions {
		compile("match condition "+condition.Name, condition.Expression, cel.BoolType)
	}
	for i, validation := range policy.Spec.Validations {
		compile(fmt.Sprintf("validation %d", i), validation.Expression, cel.BoolType)
	}
	variables.HasAuthorizer = false
	for i, validation := range policy.Spec.Validations {
		compile(fmt.Sprintf("message of validation %d", i), validation.MessageExpression, cel.StringType)
	}
	return problems
}
