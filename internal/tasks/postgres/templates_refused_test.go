package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// Callers that come past the command are refused what would break other functions.
func TestApplyTemplateRefuses(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	const whole = `{"name": "n", "namespace_name": "ns", "version": "1.0.0"`
	states := func(machine string) string { return whole + `, ` + machine + `}` }
	for name, c := range map[string]struct{ configuration, want string }{
		"nothing":                {`null`, "a template is a JSON object, not null"},
		"a list":                 {`[]`, "not array"},
		"no name":                {`{"namespace_name": "ns", "version": "1.0.0"}`, "name null"},
		"a bad name":             {`{"name": "a/b", "namespace_name": "ns", "version": "1.0.0"}`, "name 'a/b'"},
		"no namespace":           {`{"name": "n", "version": "1.0.0"}`, "namespace_name null"},
		"a bad version":          {`{"name": "n", "namespace_name": "ns", "version": "01.0"}`, "version '01.0' must be three numbers"},
		"a lifecycle of text":    {whole + `, "lifecycle": "short"}`, "the lifecycle of template ns/n@1.0.0 is not an object"},
		"minutes of text":        {whole + `, "lifecycle": {"max_pending_minutes": "5"}}`, `lifecycle.max_pending_minutes of template ns/n@1.0.0 is "5"`},
		"negative minutes":       {whole + `, "lifecycle": {"max_duration_minutes": -5}}`, "is -5; it must be a whole number from 1 to 5256000"},
		"fractions":              {whole + `, "lifecycle": {"max_duration_minutes": 1.5}}`, "is 1.5"},
		"too many minutes":       {whole + `, "lifecycle": {"max_duration_minutes": 5256001}}`, "is 5256001"},
		"an unknown action":      {whole + `, "lifecycle": {"staleness_action": "shout"}}`, "it must be dlq, error or manual_review"},
		"a switch of text":       {whole + `, "lifecycle": {"auto_fail_on_timeout": "yes"}}`, "it must be true or false"},
		"an unknown key":         {whole + `, "lifecycle": {"max_minutes": 5}}`, "lifecycle.max_minutes of template ns/n@1.0.0 is not known"},
		"steps of an object":     {whole + `, "steps": {}}`, "steps: must be a list, not a mapping"},
		"a step without a name":  {whole + `, "steps": [{"handler": "h"}]}`, "steps[0].name: is missing"},
		"retries of text":        {whole + `, "steps": [{"name": "a", "max_retries": "x"}]}`, "max_retries"},
		"a step twice":           {whole + `, "steps": [{"name": "a"}, {"name": "a"}]}`, "a step a is there already"},
		"an unknown dependency":  {whole + `, "steps": [{"name": "a", "dependencies": ["b"]}]}`, "steps[0].dependencies[0]: unknown step b"},
		"a cycle":                {whole + `, "steps": [{"name": "c"}, {"name": "a", "dependencies": ["b"]}, {"name": "b", "dependencies": ["a"]}]}`, "steps of template ns/n@1.0.0 wait for each other: a, b"},
		"a bad topic":            {whole + `, "events": {"topic": "a b"}}`, "events of template ns/n@1.0.0 needs a Kafka topic name"},
		"a start without topic":  {whole + `, "start_event": {"type": "x"}}`, "start_event of template ns/n@1.0.0 needs a Kafka topic name"},
		"a start of text":        {whole + `, "start_event": "x"}`, "start_event of template"},
		"an unknown rule":        {whole + `, "cancelled_steps": "drop"}`, `cancelled_steps of template ns/n@1.0.0 is "drop"; it must be cancel, skip or wait`},
		"no tries":               {whole + `, "max_retries": 0}`, "max_retries of template ns/n@1.0.0 is 0"},
		"a pattern, deep":        {whole + `, "input_schema": {"properties": {"x": {"items": {"anyOf": [{"type": "string"}, {"pattern": "("}]}}}}}`, "input_schema.properties.x.items.anyOf[1].pattern"},
		"states of text":         {states(`"states": "on"`), "needs arrays of states"},
		"a state without a kind": {states(`"states": [{"name": "a"}]`), "a state of template ns/n@1.0.0 needs a name and a kind"},
		"an unknown kind":        {states(`"states": [{"name": "a", "kind": "odd"}]`), `"odd"`},
		"a state twice":          {states(`"states": [{"name": "a", "kind": "initial"}, {"name": "a", "kind": "terminal"}]`), "has the state a twice"},
		"no beginning":           {states(`"states": [{"name": "a", "kind": "terminal"}]`), "exactly one state of the kind initial"},
		"two beginnings":         {states(`"states": [{"name": "a", "kind": "initial"}, {"name": "b", "kind": "initial"}]`), "exactly one state of the kind initial"},
		"a transition of text":   {states(`"states": [{"name": "a", "kind": "initial"}], "transitions": ["a"]`), "a transition of template ns/n@1.0.0"},
		"an unknown state":       {states(`"states": [{"name": "a", "kind": "initial"}], "transitions": [{"from": "a", "to": ["b"]}]`), "has no state b"},
		"an unknown role":        {states(`"states": [{"name": "a", "kind": "initial"}], "roles": {"complete": "c"}`), "has no state c"},
		"an unknown retryable":   {states(`"states": [{"name": "a", "kind": "initial"}], "retryable": ["d"]`), "has no state d"},
		"after the end":          {states(`"states": [{"name": "a", "kind": "initial"}, {"name": "z", "kind": "terminal"}], "transitions": [{"from": "z", "to": ["a"]}]`), "the state z of template ns/n@1.0.0 is terminal"},
	} {
		_, err := conn.Exec(t.Context(), `select postrider.apply_template(nullif($1::jsonb, 'null'))`, c.configuration)
		refused, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || refused.Code != "22023" || !strings.HasPrefix(refused.Message, "postrider: ") || !strings.Contains(refused.Message, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	var left int
	if err := conn.QueryRow(t.Context(), `select count(*) from postrider.tasker_named_tasks`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d templates were stored, %v", left, err)
	}
	// The states may come with the template alone, and a pattern may stand where it is none.
	var machine string
	if _, err := conn.Exec(t.Context(), `select postrider.apply_template($1)`, states(`"states": [{"name": "a", "kind": "initial"}]`)); err != nil {
		t.Error(err)
	}
	if err := conn.QueryRow(t.Context(), `select m.name from postrider.tasker_named_tasks n join postrider.tasker_state_machines m using (state_machine_id)`).Scan(&machine); err != nil || machine != "ns/n@1.0.0" {
		t.Errorf("machine %q, %v", machine, err)
	}
	if _, err := conn.Exec(t.Context(), `select postrider.apply_template($1)`, `{"name": "p", "namespace_name": "ns", "version": "1.0.0",
		"input_schema": {"properties": {"pattern": {"const": {"pattern": "("}}}, "items": true}}`); err != nil {
		t.Error(err)
	}
}

// waits waits until a session of the database waits for a lock.
func waits(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for waiting := false; !waiting; <-tick.C {
		if err := conn.QueryRow(ctx, `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMachineDoesNotChangeUnderATask(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, look := db.Pool(t), db.Conn(t)
	l := postgres.On(pool)
	first, second := lightOf(t, "1.0.0", "a", "lit"), lightOf(t, "1.0.0", "a", "bright")
	first.States[0].Name, first.Transitions[0].From = "gloomy", "gloomy"
	applies(t, l, first, ledger.AppliedNew)
	newTask := ledger.NewTask{Namespace: "home", Name: "light"}

	// If another session is changing the machine, a task that is being created waits, and sees the new machine.
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	applies(t, postgres.On(tx), second, ledger.AppliedChanged)
	created := make(chan uuid.UUID, 1)
	go func() {
		id, err := l.Create(t.Context(), newTask)
		if err != nil {
			t.Error(err)
		}
		created <- id
	}()
	waits(t, look)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	row, err := l.Task(t.Context(), <-created)
	if err != nil || row.State != "dark" {
		t.Errorf("the task began in %s, %v", row.State, err)
	}

	// A change waits for a task that is being created, and is refused then.
	third := lightOf(t, "2.0.0", "a", "lit")
	applies(t, l, third, ledger.AppliedNew)
	if tx, err = pool.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.On(tx).Create(t.Context(), newTask); err != nil {
		t.Fatal(err)
	}
	changed := make(chan error, 1)
	go func() {
		_, _, err := l.ApplyTemplate(t.Context(), lightOf(t, "2.0.0", "a", "bright"))
		changed <- err
	}()
	waits(t, look)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-changed; !errors.Is(err, ledger.ErrRefused) {
		t.Errorf("the change was not refused: %v", err)
	}

	if tx, err = pool.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.On(tx).Create(t.Context(), newTask); err != nil {
		t.Fatal(err)
	}
	applies(t, l, lightOf(t, "2.0.0", "said differently", "lit"), ledger.AppliedChanged) // does not wait
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWhoMayApplyTemplates(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	if _, err := conn.Exec(t.Context(), migrations.RolesScript(migrations.Parts())); err != nil {
		t.Fatal(err)
	}
	for role, may := range map[string]bool{"postrider_operator": true, "postrider_relay": true, "postrider_writer": false} {
		for _, sql := range []string{
			`select postrider.apply_template('{"name": "n", "namespace_name": "ns", "version": "1.0.0", "steps": [{"name": "a"}], "input_schema": {"pattern": "a"},
				"lifecycle": {"max_duration_minutes": 5}, "states": [{"name": "a", "kind": "initial"}]}')`,
			`select postrider.apply_namespace('ns', '{"max_duration_minutes": 5}')`,
		} {
			if _, err := conn.Exec(t.Context(), "set role "+role); err != nil {
				t.Fatal(err)
			}
			_, err := conn.Exec(t.Context(), sql)
			refused, isRefused := errors.AsType[*pgconn.PgError](err)
			if may && err != nil || !may && (!isRefused || refused.Code != "42501") {
				t.Errorf("%s: %v: %s", role, err, sql)
			}
			if _, err := conn.Exec(t.Context(), "reset role"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
