package postgres_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/tasks/task"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// sortedMachine brings a machine into an order that does not depend on where it comes from.
func sortedMachine(m *task.Machine) task.Machine {
	c := *m
	c.States = slices.Clone(m.States)
	slices.SortFunc(c.States, func(a, b task.State) int { return strings.Compare(a.Name, b.Name) })
	c.Transitions = nil
	for _, t := range m.Transitions {
		to := slices.Clone(t.To)
		slices.Sort(to)
		c.Transitions = append(c.Transitions, task.Transition{From: t.From, To: to})
	}
	slices.SortFunc(c.Transitions, func(a, b task.Transition) int { return strings.Compare(a.From, b.From) })
	c.Retryable = slices.Clone(m.Retryable)
	slices.Sort(c.Retryable)
	return c
}

func sameMachine(t *testing.T, l postgres.Ledger, name string, want *task.Machine) {
	t.Helper()
	got, err := l.StoredMachine(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if g, w := sortedMachine(got), sortedMachine(want); !reflect.DeepEqual(g, w) {
		t.Errorf("machine %s in the database:\n%+v\nin Go:\n%+v", name, g, w)
	}
}

func TestBuiltinMachineIsThatOfTheDatabase(t *testing.T) {
	t.Parallel()
	l := postgres.On(pgtest.New(t).Pool(t))
	sameMachine(t, l, task.BuiltinName, task.Builtin())
	if _, err := l.StoredMachine(t.Context(), "none"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("a machine that is not there: %v", err)
	}
}

func parsed(t *testing.T, text string) *task.Template {
	t.Helper()
	tpl, err := task.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

func applies(t *testing.T, l postgres.Ledger, tpl *task.Template, want ledger.Applied) uuid.UUID {
	t.Helper()
	id, applied, err := l.ApplyTemplate(t.Context(), tpl)
	if err != nil {
		t.Fatal(err)
	}
	if applied != want {
		t.Errorf("%s is %s, want %s", tpl, applied, want)
	}
	return id
}

func TestShippedTemplatesCanBeUsed(t *testing.T) {
	t.Parallel()
	l := postgres.On(pgtest.New(t).Pool(t))
	all, err := task.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	for _, tpl := range all {
		id := applies(t, l, tpl, ledger.AppliedNew)
		if again := applies(t, l, tpl, ledger.AppliedSame); again != id {
			t.Errorf("%s has the ids %s and %s", tpl, id, again)
		}
		m, own := tpl.Machine()
		stored, err := l.Template(t.Context(), tpl.Namespace, tpl.Name, tpl.Version)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{true: tpl.String(), false: task.BuiltinName}[own]; stored.Machine != want || stored.UUID != id {
			t.Errorf("stored as %+v, want the machine %s", stored, want)
		}
		sameMachine(t, l, stored.Machine, m)
		back, err := task.Parse("configuration", stored.Configuration)
		if err != nil || !reflect.DeepEqual(back, tpl) {
			t.Errorf("%s came back as %+v, %v; it was %+v", tpl, back, err, tpl)
		}
		created, err := l.Create(t.Context(), ledger.NewTask{Namespace: tpl.Namespace, Name: tpl.Name})
		if err != nil {
			t.Fatal(err)
		}
		row, err := l.Task(t.Context(), created)
		if err != nil || row.State != m.Initial() {
			t.Errorf("a task of %s begins in %s, %v", tpl, row.State, err)
		}
	}
}

const light = `
name: light
namespace_name: home
version: %s
description: %s
states: [{name: dark, kind: initial}, {name: %s, kind: terminal}]
transitions: [{from: dark, to: [%s]}]
`

func lightOf(t *testing.T, version, description, end string) *task.Template {
	t.Helper()
	return parsed(t, fmt.Sprintf(light, version, description, end, end))
}

func count(t *testing.T, pool *pgxpool.Pool, sql string) int {
	t.Helper()
	return pgtest.Value[int](t, pool, sql)
}

func TestTemplatesChange(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	l := postgres.On(pool)
	const plain = "name: light\nnamespace_name: home\nversion: 1.0.0\n"
	const machines = `select count(*) from postrider.tasker_state_machines`
	id := applies(t, l, parsed(t, plain), ledger.AppliedNew)
	// Without tasks everything may change, to a machine of its own, to another one, and back.
	applies(t, l, lightOf(t, "1.0.0", "a", "lit"), ledger.AppliedChanged)
	applies(t, l, lightOf(t, "1.0.0", "b", "lit"), ledger.AppliedChanged)
	applies(t, l, lightOf(t, "1.0.0", "b", "bright"), ledger.AppliedChanged)
	if n := count(t, pool, machines); n != 2 {
		t.Errorf("there are %d machines, want the built-in one and one", n)
	}
	applies(t, l, parsed(t, plain), ledger.AppliedChanged)
	if n := count(t, pool, machines); n != 1 {
		t.Errorf("there are %d machines, want only the built-in one", n)
	}
	if again := applies(t, l, lightOf(t, "1.0.0", "b", "lit"), ledger.AppliedChanged); again != id {
		t.Errorf("the template has the ids %s and %s", id, again)
	}

	if _, err := l.Create(t.Context(), ledger.NewTask{Namespace: "home", Name: "light"}); err != nil {
		t.Fatal(err)
	}
	for _, change := range []*task.Template{lightOf(t, "1.0.0", "b", "bright"), parsed(t, plain)} {
		_, _, err := l.ApplyTemplate(t.Context(), change)
		if !errors.Is(err, ledger.ErrRefused) || !strings.Contains(err.Error(), "template home/light@1.0.0 has tasks") || !strings.Contains(err.Error(), "raise the version") {
			t.Errorf("a change of the machine of tasks: %v", err)
		}
	}
	sameMachine(t, l, "home/light@1.0.0", &task.Machine{States: lightOf(t, "1.0.0", "b", "lit").States,
		Transitions: []task.Transition{{From: "dark", To: []string{"lit"}}}, Retryable: []string{}})
	applies(t, l, lightOf(t, "1.0.0", "still allowed", "lit"), ledger.AppliedChanged)
	applies(t, l, lightOf(t, "1.9.0", "b", "bright"), ledger.AppliedNew)
	applies(t, l, lightOf(t, "1.10.0", "b", "dazzling"), ledger.AppliedNew)

	highest, err := l.Template(t.Context(), "", "light", "")
	if err != nil || highest.Version != "1.10.0" || *highest.Description != "b" {
		t.Errorf("the highest is %+v, %v", highest, err)
	}
	all, err := l.Templates(t.Context(), "home")
	if err != nil || len(all) != 3 || all[0].Version != "1.10.0" || all[1].Version != "1.9.0" || all[2].Version != "1.0.0" {
		t.Errorf("listed %+v, %v", all, err)
	}
	if none, err := l.Templates(t.Context(), "away"); err != nil || len(none) != 0 {
		t.Errorf("listed of another namespace %+v, %v", none, err)
	}
	other := lightOf(t, "1.0.0", "b", "lit")
	other.Namespace = "garden"
	applies(t, l, other, ledger.AppliedNew)
	if _, err := l.Template(t.Context(), "", "light", ""); !errors.Is(err, ledger.ErrInvalid) || !strings.Contains(err.Error(), "garden and home") {
		t.Errorf("a name that two namespaces have: %v", err)
	}
	if _, err := l.Template(t.Context(), "home", "light", "3.0.0"); !errors.Is(err, ledger.ErrNotFound) || !strings.Contains(err.Error(), "home/light@3.0.0") {
		t.Errorf("a version that is not there: %v", err)
	}
}

// One of many that apply a new template at once makes it, and none fails.
func TestManyApplyAtOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	l := postgres.On(pool)
	tpl := lightOf(t, "1.0.0", "a", "lit")
	ids := make([]uuid.UUID, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			id, _, err := l.ApplyTemplate(t.Context(), tpl)
			if err != nil {
				t.Error(err)
			}
			ids[i] = id
		})
	}
	wg.Wait()
	if slices.ContainsFunc(ids, func(id uuid.UUID) bool { return id != ids[0] }) || ids[0] == uuid.Nil {
		t.Errorf("ids %v", ids)
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t).Pool(t)
	l := postgres.On(pool)
	minutes := 90
	first := &task.Lifecycle{MaxDurationMinutes: &minutes, MaxStateMinutes: map[string]int{"waiting_for_retry": 5}, StalenessAction: task.ActionError}
	id, err := l.ApplyNamespace(t.Context(), "payments", first, "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.ApplyNamespace(t.Context(), "payments", nil, "the payments team")
	if err != nil || again != id {
		t.Errorf("%s became %s, %v", id, again, err)
	}
	if _, err := l.ApplyNamespace(t.Context(), "accounts", nil, ""); err != nil {
		t.Fatal(err)
	}
	all, err := l.Namespaces(t.Context(), "")
	if err != nil || len(all) != 2 || all[0].Name != "accounts" || string(all[0].Lifecycle) != "{}" || all[1].UUID != id || *all[1].Description != "the payments team" {
		t.Fatalf("namespaces %+v, %v", all, err)
	}
	back, err := task.ParseLifecycle("namespace", all[1].Lifecycle)
	if err != nil || !reflect.DeepEqual(back, first) {
		t.Errorf("the lifecycle came back as %+v, %v", back, err)
	}
	// A limit for a state that no task of the namespace can be in is a mistake.
	odd := &task.Lifecycle{MaxDurationMinutes: &minutes, MaxStateMinutes: map[string]int{"waiting_for_retry": 5, "waiting_for_retries": 5, "uploaded": 5, "complete": 5}}
	_, err = l.ApplyNamespace(t.Context(), "payments", odd, "")
	refused(t, err, ledger.ErrInvalid, "namespace payments: lifecycle.max_complete_minutes, lifecycle.max_uploaded_minutes, lifecycle.max_waiting_for_retries_minutes: unknown state; its templates have blocked_by_failures, ",
		"known once it was applied")
	ledgertest.AddMachine(t, pool, ledgertest.Protocol())
	ledgertest.Apply(t, pool, ledgertest.Template{Namespace: "payments", Machine: "protocol"})
	own := &task.Lifecycle{MaxStateMinutes: map[string]int{"uploaded": 5, "pending_review": 5, "pending": 5}}
	if _, err = l.ApplyNamespace(t.Context(), "payments", own, ""); err != nil {
		t.Errorf("with a template that has them: %v", err)
	}
	_, err = l.ApplyNamespace(t.Context(), "accounts", own, "")
	refused(t, err, ledger.ErrInvalid, "namespace accounts: lifecycle.max_pending_review_minutes, lifecycle.max_uploaded_minutes: unknown state")
	if _, err := l.ApplyNamespace(t.Context(), "a b", nil, ""); !errors.Is(err, ledger.ErrInvalid) || !strings.Contains(err.Error(), "'a b'") {
		t.Errorf("a name with a space: %v", err)
	}
}
