package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestList: every filter, alone and with others, over all pages, shows what a plain query finds.
func TestList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ledgertest.AddMachine(t, f.pool, ledgertest.Protocol())
	for _, tpl := range []ledgertest.Template{{}, {Version: "2.0.0"}, {Name: "document", Machine: "protocol"}, {Namespace: "other"}, {Namespace: "other", Name: "document", Machine: "protocol"}} {
		ledgertest.Apply(t, f.pool, tpl)
	}
	f.exec(`insert into postrider.tasker_tasks (named_task_uuid, state, live)
		select n.named_task_uuid, s.state, s.kind in ('initial', 'active', 'waiting')
		from generate_series(1, 4) i, postrider.tasker_named_tasks n join postrider.tasker_machine_states s using (state_machine_id) order by random()`)
	for _, namespace := range []string{"", "default", "other", "nowhere"} {
		for _, name := range []string{"", "task", "document"} {
			for _, version := range []string{"", "2.0.0"} {
				for _, state := range []string{"", "pending", "complete", "archived", "cancelled"} {
					filter := ledger.Filter{Namespace: namespace, Name: name, Version: version, State: state, Limit: 7}
					want := pgtest.Column[uuid.UUID](t, f.pool, `select k.task_uuid from postrider.tasker_tasks k
						join postrider.tasker_named_tasks n using (named_task_uuid) join postrider.tasker_task_namespaces ns using (task_namespace_uuid)
						where ($1 = '' or ns.name = $1) and ($2 = '' or n.name = $2) and ($3 = '' or n.version = $3)
						  and (k.state = $4 or $4 = '' and k.state <> 'archived') order by k.task_uuid desc`, namespace, name, version, state)
					var got []uuid.UUID
					for more := true; more; filter.Offset += filter.Limit {
						page, further, err := f.List(t.Context(), filter)
						f.must(err)
						more = further
						for _, task := range page {
							got = append(got, task.UUID)
						}
					}
					if !slices.Equal(got, want) {
						t.Errorf("%+v lists %d tasks, or another order, want %d", filter, len(got), len(want))
					}
					got, filter.Offset = nil, 0
					for more := true; more; {
						page, further, err := f.List(t.Context(), filter)
						f.must(err)
						for _, task := range page {
							got, filter.After = append(got, task.UUID), task.UUID
						}
						more = further
					}
					if !slices.Equal(got, want) {
						t.Errorf("%+v lists %d tasks page after page, or another order, want %d", filter, len(got), len(want))
					}
				}
			}
		}
	}
}

// TestArchiveListsBySomeOf: filters of the archive together, over all pages.
func TestArchiveListsBySomeOf(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	r.exec(`insert into postrider.tasker_tasks_archive (task_uuid, named_task_uuid, state, live, state_entered_at, sort_key, context, priority, retry_count, metadata, dead_letters,
			created_at, updated_at, namespace_name, task_name, task_version, final_state, archived_at)
		select gen_random_uuid(), gen_random_uuid(), 'x', false, now(), 1, '{}', 0, 0, '{}', '{}', now(), now(), 'n' || n, 't' || i % 3, '1.0.0',
			(array['complete', 'error', 'cancelled', 'dlq_resolved'])[1 + i % 4], now() - i % 10 * interval '1 hour'
		from generate_series(1, 60) i, generate_series(1, 3) n`)
	for _, namespace := range []string{"", "n1", "n2", "n4", "a"} {
		for _, name := range []string{"", "t0", "t2", "t9"} {
			for _, final := range append(ledger.FinalStates(), "") {
				if name != "" && namespace == "" {
					continue
				}
				want := one[[]string](r, `select coalesce(array_agg(task_uuid::text order by archived_at desc, task_uuid desc), '{}') from postrider.tasker_tasks_archive
					where ($1 = '' or namespace_name = $1) and ($2 = '' or task_name = $2) and ($3 = '' or final_state = $3)`, namespace, name, string(final))
				var got []string
				f := ledger.ArchiveFilter{Namespace: namespace, Name: name, FinalState: final, Limit: 8}
				for {
					page, more, err := r.archive.List(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					for _, task := range page {
						got = append(got, task.UUID.String())
						f.Before = &ledger.TaskPlace{At: *task.ArchivedAt, TaskUUID: task.UUID}
					}
					if !more {
						break
					}
				}
				if strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("%s lists %d tasks, or another order, want %d", fmt.Sprintf("%s/%s %s", namespace, name, final), len(got), len(want))
				}
			}
		}
	}
}

// TestListOfAStateThatNoMachineHas: a mistyped state is refused, and not an empty list.
func TestListOfAStateThatNoMachineHas(t *testing.T) {
	t.Parallel()
	r := newArchiveRig(t)
	ledgertest.Create(t, r.pool, ledgertest.New{})
	if _, _, err := postgres.On(r.pool).List(t.Context(), ledger.Filter{State: "no_such"}); !errors.Is(err, ledger.ErrInvalid) || !strings.Contains(err.Error(), `no machine has the state "no_such"; there are blocked_by_failures`) {
		t.Errorf("%v", err)
	}
}
