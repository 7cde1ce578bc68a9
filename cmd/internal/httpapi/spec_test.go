package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// operation is one of openapi.yaml.
type operation struct {
	method, path, id string
	scope            access.Scope
	body             bool // it takes one
	params           []string
	fields           [][]string         // paths of the fields of its body
	request          *jsonschema.Schema // of a body in JSON; nil for none
	answers          map[int]*jsonschema.Schema
}

// spec is openapi.yaml as tests need it.
type spec struct{ operations []*operation }

var methods = []string{"get", "post", "patch", "put", "delete"}

// shared is the description that all tests of the process read, and none changes: it takes a fifth of a second, and several
// times that under the race detector.
var shared struct {
	mu   sync.Mutex
	spec *spec
}

func readSpec(t testing.TB) *spec {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.spec == nil {
		shared.spec = parseSpec(t)
	}
	return shared.spec
}

func parseSpec(t testing.TB) *spec {
	t.Helper()
	made, err := described() // what openapi.yaml is to be; TestOpenAPI compares
	if err != nil {
		t.Fatal(err)
	}
	var text any
	if err := yaml.Unmarshal(made, &text); err != nil {
		t.Fatalf("openapi.yaml: %v", err)
	}
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	root := document.(map[string]any)
	if v := root["openapi"]; v != "3.1.0" {
		t.Errorf("openapi is %v", v)
	}
	s := &spec{}
	for path, item := range object(t, root, "paths") {
		for _, method := range methods {
			if _, has := item.(map[string]any)[method]; has {
				s.operations = append(s.operations, readOperation(t, compiler, root, path, method))
			}
		}
	}
	if len(s.operations) < 40 {
		t.Fatalf("only %d operations", len(s.operations))
	}
	return s
}

// object walks down a document.
func object(t testing.TB, here map[string]any, path ...string) map[string]any {
	t.Helper()
	for _, p := range path {
		next, ok := here[p].(map[string]any)
		if !ok {
			t.Fatalf("openapi.yaml has no object at %s", strings.Join(path, "."))
		}
		here = next
	}
	return here
}

func readOperation(t testing.TB, compiler *jsonschema.Compiler, root map[string]any, path, method string) *operation {
	t.Helper()
	o := &operation{method: strings.ToUpper(method), path: path, answers: map[int]*jsonschema.Schema{}}
	raw := object(t, root, "paths", path, method)
	place := "paths/" + strings.ReplaceAll(strings.ReplaceAll(path, "~", "~0"), "/", "~1") + "/" + method
	schema := func(at string) (*jsonschema.Schema, error) {
		return compiler.Compile("openapi.json#/" + strings.NewReplacer("{", "%7B", "}", "%7D").Replace(at) + "/content/application~1json/schema")
	}
	o.id, _ = raw["operationId"].(string)
	if _, o.body = raw["requestBody"]; o.body {
		content := object(t, raw, "requestBody", "content")
		if kind, is := content["application/json"].(map[string]any); is {
			o.fields = readFields(t, root, object(t, kind, "schema"), nil)
			var err error
			if o.request, err = schema(place + "/requestBody"); err != nil {
				t.Fatalf("%s: its body: %v", o.id, err)
			}
		}
	}
	// Two ways to give a key, with the same scope as their role.
	for i, way := range []string{"apiKey", "bearer"} {
		ways, _ := raw["security"].([]any)
		if len(ways) != 2 {
			t.Fatalf("%s: %d securities", o.id, len(ways))
		}
		roles, _ := ways[i].(map[string]any)[way].([]any)
		if len(roles) != 1 || i > 0 && roles[0] != string(o.scope) {
			t.Fatalf("%s: security %v", o.id, ways)
		}
		o.scope = access.Scope(roles[0].(string))
	}
	params, _ := raw["parameters"].([]any)
	for _, p := range params {
		at := p.(map[string]any)
		if to, is := at["$ref"].(string); is {
			at = object(t, root, strings.Split(strings.TrimPrefix(to, "#/"), "/")...)
		}
		if at["in"] == "query" {
			o.params = append(o.params, at["name"].(string))
		}
	}
	for status, answer := range object(t, raw, "responses") {
		code, err := strconv.Atoi(status)
		if err != nil {
			t.Fatalf("%s answers %q", o.id, status)
		}
		at := place + "/responses/" + status
		if to, is := answer.(map[string]any)["$ref"].(string); is {
			at = strings.TrimPrefix(to, "#/")
		}
		if o.answers[code], err = schema(at); err != nil {
			t.Fatalf("%s answers %d: %v", o.id, code, err)
		}
	}
	return o
}

// readFields returns the paths of all fields of an object, with the fields of objects in it.
func readFields(t testing.TB, root, schema map[string]any, within []string) (paths [][]string) {
	t.Helper()
	if to, is := schema["$ref"].(string); is {
		schema = object(t, root, strings.Split(strings.TrimPrefix(to, "#/"), "/")...)
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		path := append(slices.Clone(within), name)
		paths = append(paths, path)
		if inner, is := properties[name].(map[string]any); is {
			paths = append(paths, readFields(t, root, inner, path)...)
		}
	}
	return paths
}

// find returns the operation that a path without its prefix asks for; a part that is spelt out goes before one
// that is not.
func (s *spec) find(method, path string) *operation {
	path, _, _ = strings.Cut(path, "?")
	var best *operation
	for _, o := range s.operations {
		if o.method == method && fits(o.path, path) && (best == nil || strings.Count(o.path, "{") < strings.Count(best.path, "{")) {
			best = o
		}
	}
	return best
}

func fits(pattern, path string) bool {
	ps, parts := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(ps) != len(parts) {
		return false
	}
	for i, p := range ps {
		if !strings.HasPrefix(p, "{") && p != parts[i] {
			return false
		}
	}
	return true
}

// check says what of an answer is not as it is documented.
func (o *operation) check(status int, body []byte) error {
	schema, known := o.answers[status]
	if !known {
		return fmt.Errorf("%s answers %d, which is not documented", o.id, status)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s answers %d with no JSON: %w", o.id, status, err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%s answers %d: %w", o.id, status, err)
	}
	return nil
}

// takes says what of a body that was taken is not as it is documented. Null is the same as nothing for a field that may be
// left out.
func (o *operation) takes(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	dropNulls(value)
	if err == nil && o.request == nil {
		err = errors.New("it takes none")
	}
	if err == nil {
		err = o.request.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("%s: its body: %w", o.id, err)
	}
	return nil
}

func dropNulls(v any) {
	if object, is := v.(map[string]any); is {
		maps.DeleteFunc(object, func(_ string, v any) bool { return v == nil })
		for _, inner := range object {
			dropNulls(inner)
		}
	}
}

// The served routes and the described routes are the same, and so are the scopes.
func TestRoutesAndDescriptionAreTheSame(t *testing.T) {
	t.Parallel()
	s := readSpec(t)
	described := map[string]access.Scope{}
	var ids []string
	for _, o := range s.operations {
		described[o.method+" "+o.path] = o.scope
		ids = append(ids, o.id)
	}
	slices.Sort(ids)
	if unique := slices.Compact(slices.Clone(ids)); len(unique) != len(ids) || unique[0] == "" {
		t.Errorf("operationIds are missing or repeat: %q", ids)
	}
	for _, r := range (&httpapi.Services{}).Routes() {
		name := r.Method + " " + r.Path
		switch scope, known := described[name]; {
		case !known:
			t.Errorf("%s is not described", name)
		case scope != r.Scope:
			t.Errorf("%s needs %s, described is %s", name, r.Scope, scope)
		}
		if o := s.find(r.Method, r.Path); o != nil && (r.Method == http.MethodPost || r.Method == http.MethodPatch) != o.body {
			t.Errorf("%s: body described: %v", name, o.body)
		}
		delete(described, name)
	}
	for name := range described {
		t.Errorf("%s is described and not served", name)
	}
}
