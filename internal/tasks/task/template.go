package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Template says what tasks of one kind look like. It is read with Parse, which is what checks it.
type Template struct {
	// Name, Namespace and Version identify it.
	Name      string `json:"name"`
	Namespace string `json:"namespace_name"`
	Version   string `json:"version"`
	// Description is for people.
	Description string `json:"description,omitempty"`
	// Metadata is free for tools, a mapping.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// TaskHandler is the service's own: a text or a mapping.
	TaskHandler json.RawMessage `json:"task_handler,omitempty"`
	// SystemDependencies and DomainEvents are kept for services and people.
	SystemDependencies json.RawMessage `json:"system_dependencies,omitempty"`
	DomainEvents       json.RawMessage `json:"domain_events,omitempty"`
	// InputSchema is what the context of a task must fit, a subset of JSON Schema (SchemaKeywords).
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
	// Environments are overrides, applied by In.
	Environments map[string]json.RawMessage `json:"environments,omitempty"`
	// Lifecycle says when tasks are stale.
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"`
	// Steps are what tasks consist of.
	Steps []Step `json:"steps,omitempty"`
	// CancelledSteps says what becomes of the steps that depend on a cancelled one. Defaults to CancelDependants.
	CancelledSteps CancelledSteps `json:"cancelled_steps,omitempty"`
	// Events says where lifecycle events go.
	Events *Events `json:"events,omitempty"`
	// StartEvent is enqueued when a task is created, and again when it is retried.
	StartEvent *StartEvent `json:"start_event,omitempty"`
	// MaxRetries is how often an event linked to a task is tried before it is dead-lettered; 0 leaves it to the
	// topic's setting.
	MaxRetries int `json:"max_retries,omitempty"`
	// States, Transitions, Roles and Retryable are a machine of its own; without them it is the built-in one.
	States      []State      `json:"states,omitempty"`
	Transitions []Transition `json:"transitions,omitempty"`
	Roles       *Roles       `json:"roles,omitempty"`
	Retryable   []string     `json:"retryable,omitempty"`
}

// Step is a step of a template.
type Step struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Handler is what does the work, in the words of the service: a text, or a mapping with name, callable or
	// class and whatever else the service understands.
	Handler json.RawMessage `json:"handler,omitempty"`
	// Dependencies are the steps that must be done before.
	Dependencies []string `json:"dependencies,omitempty"`
	// MaxRetries is how often the step is tried again. Nil leaves it to the ledger: 3.
	MaxRetries *int `json:"max_retries,omitempty"`
	// RetryBaseSeconds is the pause before the first retry, doubled by each further one up to RetryMaxSeconds.
	// 0 leaves it to the ledger: 1 and 60.
	RetryBaseSeconds float64 `json:"retry_base_seconds,omitempty"`
	RetryMaxSeconds  float64 `json:"retry_max_seconds,omitempty"`
	// Inputs are given to the step as they are.
	Inputs json.RawMessage `json:"inputs,omitempty"`
	// Metadata is free for tools, a mapping.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// CancelledSteps is what becomes of the steps that depend on a cancelled step. Where every step of a task is done or
// cancelled, the task ends in any case.
type CancelledSteps string

// The rules.
const (
	// CancelDependants cancels them, too. It is the default.
	CancelDependants CancelledSteps = "cancel"
	// SkipCancelled lets them go on, as if the cancelled step had been done.
	SkipCancelled CancelledSteps = "skip"
	// WaitForCancelled lets them wait for a person, in waiting_for_dependencies.
	WaitForCancelled CancelledSteps = "wait"
)

// Events says where lifecycle events go.
type Events struct {
	// Topic is their Kafka topic; empty takes the one of the settings.
	Topic string `json:"topic,omitempty"`
}

// StartEvent is an event with the context of the task.
type StartEvent struct {
	Topic string `json:"topic"`
	// Type is its CloudEvents type.
	Type string `json:"type,omitempty"`
}

// Parse reads a template from YAML or JSON. All its mistakes come at once, as *InvalidError; source names the template
// there.
func Parse(source string, data []byte) (*Template, error) {
	var ps problems
	root := parse(data, &ps)
	if root == nil {
		return nil, ps.err(source)
	}
	t := read(root, &ps)
	if environments := root.get("environments"); environments != nil {
		checkEnvironments(root, environments, &ps)
	}
	if err := ps.err(source); err != nil {
		return nil, err
	}
	return t, nil
}

// ParseLifecycle reads the lifecycle of a namespace from YAML or JSON, alone or under the key lifecycle. States
// are not checked: a namespace does not know the machines of its templates.
func ParseLifecycle(source string, data []byte) (*Lifecycle, error) {
	var ps problems
	root := parse(data, &ps)
	if root == nil {
		return nil, ps.err(source)
	}
	path := ""
	if inner := root.get("lifecycle"); inner != nil && len(root.pairs) == 1 {
		root, path = inner, "lifecycle"
	}
	l, _ := readLifecycle(root, path, &ps)
	return l, ps.err(source)
}

// Encode returns the template as JSON in one line: what the database stores.
func (t *Template) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(t); err != nil {
		return nil, fmt.Errorf("encode the template %s: %w", t, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// String names the template and its version: namespace/name@version.
func (t *Template) String() string { return t.Namespace + "/" + t.Name + "@" + t.Version }

// Machine returns the machine of the template's tasks; own says that the template declares it.
func (t *Template) Machine() (m *Machine, own bool) {
	if len(t.States) == 0 {
		return Builtin(), false
	}
	m = &Machine{States: t.States, Transitions: t.Transitions, Retryable: slices.Clone(t.Retryable)}
	if m.Retryable == nil {
		m.Retryable = []string{}
	}
	if t.Roles != nil {
		m.Roles = *t.Roles
	}
	return m, true
}
