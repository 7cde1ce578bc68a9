package ledgertest

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Template is a row of templates, written past all validation. The zero value is the template default/task@1.0.0
// of the built-in machine, without steps.
type Template struct {
	// Namespace defaults to "default", Name to "task", Version to "1.0.0", Machine to "workflow".
	Namespace, Name, Version, Machine string
	// NamespaceLifecycle, if not empty, is the JSON of the namespace's thresholds.
	NamespaceLifecycle string
	// Configuration is the template as JSON, for example {"steps": [...], "lifecycle": {...}}. Defaults to {}.
	Configuration string
}

func or(given, otherwise string) string {
	if given == "" {
		return otherwise
	}
	return given
}

// Apply writes a template, or changes the one there is, and returns its uuid.
func Apply(t testing.TB, pool *pgxpool.Pool, tpl Template) uuid.UUID {
	t.Helper()
	var id uuid.UUID
	err := pool.QueryRow(t.Context(), `
		with ns as (
			insert into postrider.tasker_task_namespaces (name, lifecycle) values ($1, coalesce(nullif($6, ''), '{}')::jsonb)
			on conflict (name) do update set lifecycle = case when $6 = '' then tasker_task_namespaces.lifecycle else excluded.lifecycle end
			returning task_namespace_uuid
		)
		insert into postrider.tasker_named_tasks (task_namespace_uuid, name, version, configuration, state_machine_id)
		select ns.task_namespace_uuid, $2, $3, $4::jsonb, m.state_machine_id
		from ns, postrider.tasker_state_machines m where m.name = $5
		on conflict (task_namespace_uuid, name, version) do update
			set configuration = excluded.configuration, state_machine_id = excluded.state_machine_id, updated_at = now()
		returning named_task_uuid`,
		or(tpl.Namespace, "default"), or(tpl.Name, "task"), or(tpl.Version, "1.0.0"), or(tpl.Configuration, "{}"),
		or(tpl.Machine, "workflow"), tpl.NamespaceLifecycle).Scan(&id)
	if err != nil {
		t.Fatalf("apply template %+v: %v", tpl, err)
	}
	return id
}

// Machine is a state machine of its own. Empty roles are null.
type Machine struct {
	Name                                                       string
	Initial, Complete, Failed, Cancelled, DeadLetter, Archived string
	Retryable                                                  []string
	// States are names and kinds. Transitions are the states that a task may enter from each state.
	States      map[string]string
	Transitions map[string][]string
}

// Protocol is the machine of nine states of a document pipeline.
func Protocol() Machine {
	return Machine{
		Name: "protocol", Initial: "uploaded", Complete: "complete", DeadLetter: "dead_letter", Archived: "archived",
		Retryable: []string{"extraction_failed", "grounding_failed", "dead_letter"},
		States: map[string]string{
			"uploaded": "initial", "extracting": "active", "extraction_failed": "failed", "grounding": "active",
			"grounding_failed": "failed", "pending_review": "waiting", "complete": "terminal", "dead_letter": "failed", "archived": "terminal",
		},
		Transitions: map[string][]string{
			"uploaded": {"extracting", "dead_letter"}, "extracting": {"grounding", "extraction_failed", "dead_letter"},
			"extraction_failed": {"uploaded", "dead_letter"}, "grounding": {"pending_review", "grounding_failed", "dead_letter"},
			"grounding_failed": {"uploaded", "dead_letter"}, "pending_review": {"complete", "dead_letter"},
			"dead_letter": {"uploaded", "archived"},
		},
	}
}

// AddMachine writes a machine.
func AddMachine(t testing.TB, pool *pgxpool.Pool, m Machine) {
	t.Helper()
	states, err := json.Marshal(m.States)
	if err != nil {
		t.Fatal(err)
	}
	if m.Transitions == nil {
		m.Transitions = map[string][]string{}
	}
	transitions, err := json.Marshal(m.Transitions)
	if err != nil {
		t.Fatal(err)
	}
	retryable := m.Retryable
	if retryable == nil {
		retryable = []string{}
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	var id int
	err = tx.QueryRow(t.Context(), `
		insert into postrider.tasker_state_machines (name, initial_state, complete_state, failed_state, cancelled_state,
			dead_letter_state, archived_state, retryable_states)
		values ($1, $2, nullif($3, ''), nullif($4, ''), nullif($5, ''), nullif($6, ''), nullif($7, ''), $8) returning state_machine_id`,
		m.Name, m.Initial, m.Complete, m.Failed, m.Cancelled, m.DeadLetter, m.Archived, retryable).Scan(&id)
	if err != nil {
		t.Fatalf("add machine %s: %v", m.Name, err)
	}
	if _, err := tx.Exec(t.Context(), `insert into postrider.tasker_machine_states select $1, s.key, s.value from jsonb_each_text($2::jsonb) s`, id, states); err != nil {
		t.Fatalf("add the states of machine %s: %v", m.Name, err)
	}
	if _, err := tx.Exec(t.Context(), `insert into postrider.tasker_machine_transitions
		select $1, a.key, jsonb_array_elements_text(a.value) from jsonb_each($2::jsonb) a`, id, transitions); err != nil {
		t.Fatalf("add the transitions of machine %s: %v", m.Name, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
