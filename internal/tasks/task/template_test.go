package task

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// again encodes a template and reads it back.
func again(t *testing.T, tpl *Template) *Template {
	t.Helper()
	encoded, err := tpl.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse("again", encoded)
	if err != nil {
		t.Fatalf("%v in %s", err, encoded)
	}
	return back
}

func TestTheExampleHasEveryKey(t *testing.T) {
	t.Parallel()
	text, err := Example()
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := Parse("example.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if back := again(t, tpl); !reflect.DeepEqual(back, tpl) {
		t.Errorf("%+v came back as %+v", tpl, back)
	}
	for _, v := range []any{*tpl, tpl.Steps[0], *tpl.Events, *tpl.StartEvent} {
		fields := reflect.ValueOf(v)
		for i := range fields.NumField() {
			name := fields.Type().Field(i).Name
			if fields.Field(i).IsZero() && name != "Dependencies" {
				t.Errorf("the example does not set %T.%s", v, name)
			}
		}
	}
	for _, keyword := range SchemaKeywords() {
		if strings.HasPrefix(keyword, "$") || slices.Contains([]string{"default", "deprecated", "description", "examples", "format", "readOnly", "writeOnly"}, keyword) {
			continue // annotations
		}
		if !strings.Contains(string(text), keyword) {
			t.Errorf("the example does not name the keyword %s", keyword)
		}
	}
}

func TestShippedTemplates(t *testing.T) {
	t.Parallel()
	all, err := Shipped()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*Template{}
	for _, tpl := range all {
		byName[tpl.Name] = tpl
		if back := again(t, tpl); !reflect.DeepEqual(back, tpl) {
			t.Errorf("%+v came back as %+v", tpl, back)
		}
	}
	if len(byName) != 4 {
		t.Fatalf("shipped are %v", byName)
	}

	// As the first design wrote them.
	payment := byName["payment_processing"]
	if payment.String() != "payments/payment_processing@2.0.0" || payment.Lifecycle.String() != "max_duration_minutes 30, max_steps_in_process_minutes 20, "+
		"max_waiting_for_dependencies_minutes 10, max_waiting_for_retry_minutes 5, staleness_action dlq, auto_fail_on_timeout true, auto_dlq_on_timeout true" {
		t.Errorf("%s has the lifecycle %s", payment, payment.Lifecycle)
	}
	if payment.Steps[0].Name != "validate_payment" || string(payment.Steps[0].Handler) != `"PaymentValidator"` ||
		payment.Steps[1].Name != "charge_card" || string(payment.Steps[1].Handler) != `"CardCharger"` {
		t.Errorf("%s has the steps %+v", payment, payment.Steps)
	}
	if got := byName["batch_report"].Lifecycle.String(); got != "max_duration_minutes 1440, max_waiting_for_dependencies_minutes 480, staleness_action manual_review" {
		t.Errorf("batch_report has the lifecycle %s", got)
	}
	if w := byName["workflow"]; w.Lifecycle != nil || len(w.Steps) != 0 {
		t.Errorf("workflow says %+v", w)
	}
	protocol := byName["protocol"]
	m, own := protocol.Machine()
	if !own || m.Initial() != "uploaded" || protocol.MaxRetries != 3 ||
		!slices.Equal(m.stateNames(), []string{"uploaded", "extracting", "extraction_failed", "grounding", "grounding_failed", "pending_review", "complete", "dead_letter", "archived"}) {
		t.Errorf("protocol has %+v", m)
	}
	for _, edge := range [][2]string{
		{"uploaded", "extracting"}, {"extracting", "extraction_failed"}, {"extracting", "grounding"}, {"grounding", "grounding_failed"},
		{"grounding", "pending_review"}, {"pending_review", "complete"}, {"extraction_failed", "dead_letter"}, {"grounding_failed", "dead_letter"},
		{"dead_letter", "archived"}, {"extraction_failed", "uploaded"}, {"grounding_failed", "uploaded"}, {"dead_letter", "uploaded"},
	} {
		if !m.Allows(edge[0], edge[1]) {
			t.Errorf("protocol does not lead from %s to %s", edge[0], edge[1])
		}
	}
	if m.Allows("complete", "uploaded") || m.Allows("archived", "uploaded") || !slices.Equal(m.Retryable, []string{"extraction_failed", "grounding_failed", "dead_letter"}) {
		t.Errorf("protocol is retried from %v", m.Retryable)
	}
	if v := Stale(Stay{Machine: m, State: "pending_review", Template: protocol.Lifecycle, Defaults: StandardDefaults(), Switches: AllOn(), Now: epoch.AddDate(0, 0, 8), Entered: epoch, Created: epoch}); !v.Stale || v.Moved || !v.Letter {
		t.Errorf("a review of 8 days: %+v", v)
	}
}

func TestTheBuiltinMachineIsAValidTemplate(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal(Builtin())
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := Parse("builtin", []byte(`{"name": "n", "namespace_name": "ns", "version": "1.0.0", `+string(encoded[1:])))
	if err != nil {
		t.Fatal(err)
	}
	if m, own := tpl.Machine(); !own || !reflect.DeepEqual(m, Builtin()) {
		t.Errorf("it came back as %+v", m)
	}
	plain, err := Parse("plain", []byte(head))
	if err != nil {
		t.Fatal(err)
	}
	if m, own := plain.Machine(); own || !reflect.DeepEqual(m, Builtin()) {
		t.Errorf("without states it is %+v", m)
	}
	if m := (&Machine{}); m.Initial() != "" || m.Kind("x") != "" || m.Allows("x", "y") {
		t.Error("a machine without states has some")
	}
	small, err := Parse("small", []byte(head+"states: [{name: a, kind: initial}, {name: z, kind: terminal}]\ntransitions: [{from: a, to: [z]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := small.Machine(); m.Retryable == nil || m.Roles != (Roles{}) {
		t.Errorf("a small machine is %+v", m)
	}
}

func TestEnvironments(t *testing.T) {
	t.Parallel()
	tpl, err := Parse("t.yaml", []byte(head+`
description: everywhere
metadata: {owner: a, tags: [x], none: ~}
lifecycle: {max_duration_minutes: 60, max_pending_minutes: 5}
steps:
  - {name: a, inputs: {one: 1, two: 2}, max_retries: 3}
  - {name: b, dependencies: [a]}
environments:
  staging:
    description: staging
    metadata: {tags: [y, z], more: 1, none: some}
    lifecycle: {max_pending_minutes: 1}
    steps:
      - {name: a, inputs: {two: 3}}
      - {name: b, dependencies: []}
    max_retries: 2
    task_handler: ~
  quiet: ~
`))
	if err != nil {
		t.Fatal(err)
	}
	in, err := tpl.In("staging")
	if err != nil {
		t.Fatal(err)
	}
	if in.Description != "staging" || string(in.Metadata) != `{"owner":"a","tags":["y","z"],"none":"some","more":1}` ||
		in.Lifecycle.String() != "max_duration_minutes 60, max_pending_minutes 1" || string(in.Steps[0].Inputs) != `{"one":1,"two":3}` ||
		*in.Steps[0].MaxRetries != 3 || len(in.Steps[1].Dependencies) != 0 || in.MaxRetries != 2 || in.TaskHandler != nil {
		t.Errorf("in staging it is %+v", in)
	}
	if !reflect.DeepEqual(in.Environments, tpl.Environments) {
		t.Errorf("the environments became %s", in.Environments)
	}
	if twice, err := in.In("staging"); err != nil || !reflect.DeepEqual(twice, in) {
		t.Errorf("staging of staging is %+v, %v", twice, err)
	}
	if quiet, err := tpl.In("quiet"); err != nil || !reflect.DeepEqual(quiet, tpl) {
		t.Errorf("in quiet it is %+v, %v", quiet, err)
	}
	if _, err := tpl.In("stagin"); err == nil || !strings.Contains(err.Error(), "ns/n@1.0.0 has no environment stagin; the nearest environment is staging") {
		t.Errorf("an environment that is not there: %v", err)
	}
	// Templates that were made by hand are checked here.
	tpl.Environments["broken"] = json.RawMessage(`{"steps": [{"name": "none"}]}`)
	var invalid *InvalidError
	if _, err := tpl.In("broken"); !errors.As(err, &invalid) {
		t.Errorf("a broken environment: %v", err)
	}
	tpl.Environments["staging"] = json.RawMessage(`{`)
	if _, err := tpl.In("staging"); err == nil || !strings.Contains(err.Error(), "encode the template") {
		t.Errorf("an environment that is no JSON: %v", err)
	}
	tpl.Environments["broken"], tpl.Environments["staging"] = json.RawMessage(`null`), json.RawMessage(`{"version": "2.0.0"}`)
	tpl.Name = "a b"
	if _, err := tpl.In("broken"); !errors.As(err, &invalid) {
		t.Errorf("a broken template: %v", err)
	}
}

func TestPaymentProcessingIsTheTextOfTheDesign(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("templates/payment_processing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"name: payment_processing", "namespace_name: payments", "version: 2.0.0", `  staleness_action: "dlq"        # Options: dlq | error | manual_review`} {
		if !slices.Contains(strings.Split(string(text), "\n"), line) {
			t.Errorf("there is no line %q", line)
		}
	}
}
