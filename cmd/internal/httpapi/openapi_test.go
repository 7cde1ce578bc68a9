package httpapi_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// TestOpenAPI compares openapi.yaml with what it is made of: the words of operations.yaml, the table of routes, the types
// with their comments, and the examples of testdata. UPDATE=1 writes the file anew.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	made, err := describeNow() // TestOpenAPIExamples may have written others meanwhile
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile("openapi.yaml", made, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := httpapi.OpenAPI(); !bytes.Equal(made, want) {
		a, b := strings.Split(string(want), "\n"), strings.Split(string(made), "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Errorf("line %d is\n%s\nand is made as\n%s", i+1, a[i], b[i])
				break
			}
		}
		t.Error("openapi.yaml is not what operations.yaml, the routes, the types and the examples say: UPDATE=1 go test -run TestOpenAPI ./cmd/internal/httpapi writes it anew")
	}
}

// example is what an operation was asked once, and its answer. openapi.yaml keeps them.
type example struct {
	// request is the body; nil for none.
	request *yaml.Node
	status  string
	// answer is the whole answer.
	answer *yaml.Node
}

// readExamples returns the examples of openapi.yaml, by operationId.
func readExamples() (map[string]example, error) {
	text, err := os.ReadFile("openapi.yaml")
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w: take one side of it whole, then write it anew with UPDATE=1", err)
	}
	all := map[string]example{}
	for _, path := range values(member(document.Content[0], "paths")) {
		for _, o := range values(path) {
			e := example{request: member(inJSON(member(o, "requestBody")), "example")}
			responses := member(o, "responses")
			for i, response := range values(responses) {
				if shown := member(inJSON(response), "example"); shown != nil {
					e.status, e.answer = responses.Content[2*i].Value, shown
				}
			}
			all[member(o, "operationId").Value] = e
		}
	}
	return all, nil
}

// values are the values of an object.
func values(object *yaml.Node) (all []*yaml.Node) {
	for i := 1; object != nil && i < len(object.Content); i += 2 {
		all = append(all, object.Content[i])
	}
	return all
}

// inJSON is what a body or an answer is in JSON.
func inJSON(n *yaml.Node) *yaml.Node { return member(member(n, "content"), "application/json") }

// describe makes openapi.yaml with these examples.
func describe(examples map[string]example) ([]byte, error) {
	text, err := os.ReadFile("operations.yaml")
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("operations.yaml: %w", err)
	}
	root := document.Content[0]
	d := &description{newSchemas(), examples}
	if err := d.enums(root); err != nil {
		return nil, err
	}
	if err := d.operations(member(root, "paths")); err != nil {
		return nil, err
	}
	if err := d.components(member(root, "components")); err != nil {
		return nil, err
	}
	root.HeadComment = "Made of operations.yaml, the routes and the types of Go: change these, and run UPDATE=1 go test -run TestOpenAPI ./cmd/internal/httpapi"
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err = errors.Join(e.Encode(root), e.Close())
	return out.Bytes(), err
}

// describeNow is describe with the examples that openapi.yaml has.
func describeNow() ([]byte, error) {
	examples, err := readExamples()
	if err != nil {
		return nil, err
	}
	return describe(examples)
}

// described is describeNow, once for all tests.
var described = sync.OnceValues(describeNow)

// description is openapi.yaml while it is made.
type description struct {
	*schemas
	examples map[string]example
}

// enums puts the constants of a type in place of its name: enum: internal/dlq.Status.
func (d *description) enums(n *yaml.Node) error {
	if words := member(n, "enum"); words != nil && words.Kind == yaml.ScalarNode {
		constants, err := d.enum(words.Value)
		if err != nil {
			return fmt.Errorf("operations.yaml:%d: %w", words.Line, err)
		}
		*words = *node(constants)
	}
	for _, inner := range n.Content {
		if err := d.enums(inner); err != nil {
			return err
		}
	}
	return nil
}

// operations adds to each operation what its route says: the scope, the body, the answers. What operations.yaml says of an
// answer replaces that.
func (d *description) operations(paths *yaml.Node) error {
	var errs []error
	for _, r := range (&httpapi.Services{}).Routes() {
		o := member(member(paths, r.Path), strings.ToLower(r.Method))
		if o == nil {
			errs = append(errs, fmt.Errorf("operations.yaml does not describe %s %s: say its operationId, tags, summary and parameters", r.Method, r.Path))
		} else if err := d.operation(o, r); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", r.Method, r.Path, err))
		}
	}
	return errors.Join(errs...)
}

func (d *description) operation(o *yaml.Node, r httpapi.Route) error {
	role := []string{string(r.Scope)}
	add(o, "security", &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: []*yaml.Node{flow("apiKey", role), flow("bearer", role)}})
	id := member(o, "operationId")
	if id == nil {
		return errors.New("operations.yaml gives it no operationId")
	}
	shown := d.examples[id.Value]
	if r.Body != nil {
		t, optional := reflect.TypeOf(r.Body), false
		if t.Kind() == reflect.Pointer {
			t, optional = t.Elem(), true
		}
		schema, err := d.of(t)
		if err != nil {
			return err
		}
		add(o, "requestBody", mapping("required", !optional, "content", mapping("application/json", mapping("schema", schema))))
	}
	if body := inJSON(member(o, "requestBody")); body != nil && shown.request != nil {
		add(body, "example", shown.request)
	}
	all := map[string]*yaml.Node{} // by status
	for _, answer := range r.Answers {
		status, response, err := d.answer(answer, shown)
		if err != nil {
			return err
		}
		all[status] = response
	}
	for status, name := range refusals(r) {
		all[status] = flow("$ref", "#/components/responses/"+name)
	}
	if i := slices.IndexFunc(o.Content, func(n *yaml.Node) bool { return n.Value == "responses" }); i >= 0 {
		for j, byHand := 0, o.Content[i+1]; j < len(byHand.Content); j += 2 {
			all[byHand.Content[j].Value] = byHand.Content[j+1]
		}
		o.Content = slices.Delete(o.Content, i, i+2)
	}
	responses := mapping()
	for _, status := range slices.Sorted(maps.Keys(all)) {
		add(responses, status, all[status])
	}
	add(o, "responses", responses)
	return nil
}

// answer describes an answer of an operation.
func (d *description) answer(answer any, shown example) (status string, response *yaml.Node, err error) {
	code := http.StatusOK
	switch a := answer.(type) {
	case httpapi.Moved:
		return "301", flow("$ref", "#/components/responses/Moved"), nil
	case httpapi.Created:
		code, answer = http.StatusCreated, a.Data
	}
	data, err := d.of(reflect.TypeOf(answer))
	if err != nil {
		return "", nil, err
	}
	status = strconv.Itoa(code)
	body := mapping("schema", flow("type", "object", "required", []string{"ok", "data", "error"},
		"properties", mapping("ok", mapping("const", true), "data", data, "error", mapping("type", "null")), "additionalProperties", false))
	if shown.status == status {
		add(body, "example", shown.answer)
	}
	return status, mapping("description", "Done.", "content", mapping("application/json", body)), nil
}

// refusals are the errors that an operation answers with, by status. operations.yaml names the errors of single operations.
func refusals(r httpapi.Route) map[string]string {
	all := map[string]string{"400": "Validation", "401": "Unauthenticated", "403": "Forbidden", "429": "RateLimited", "500": "Internal", "503": "Unavailable"}
	if strings.Contains(r.Path, "{") {
		all["404"] = "NotFound"
	}
	if r.Method != http.MethodGet {
		all["409"], all["413"], all["422"] = "Conflict", "TooLarge", "IdempotencyMismatch"
	}
	if r.Method == http.MethodPost || r.Method == http.MethodPatch {
		all["415"] = "UnsupportedMedia"
	}
	return all
}

// components adds the schemas that the operations refer to, with what operations.yaml says of them.
func (d *description) components(components *yaml.Node) error {
	refused, err := d.of(reflect.TypeOf(httpapi.ErrorBody))
	if err != nil {
		return err
	}
	d.made["Error"] = mapping("description", "The envelope of every error.", "type", "object", "required", []string{"ok", "data", "error"},
		"properties", mapping("ok", flow("const", false), "data", flow("type", "null"), "error", refused), "additionalProperties", false)
	byHand := member(components, "schemas")
	for i := 0; i < len(byHand.Content); i += 2 {
		name := byHand.Content[i].Value
		made, is := d.made[name]
		if !is {
			return fmt.Errorf("operations.yaml:%d says something of the schema %s, which no operation has", byHand.Content[i].Line, name)
		}
		if err := merge(made, byHand.Content[i+1], name); err != nil {
			return err
		}
	}
	all := mapping()
	for _, name := range slices.Sorted(maps.Keys(d.made)) {
		add(all, name, d.made[name])
	}
	*byHand = *all
	return nil
}
