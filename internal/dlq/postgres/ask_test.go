package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	relaypostgres "github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// trips counts how often a connection was asked and waited for: queries, and batches of them.
type trips struct{ asked []string }

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	c.asked = append(c.asked, q.SQL)
	return ctx
}

func (c *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	c.asked = append(c.asked, fmt.Sprintf("a batch of %d", b.Batch.Len()))
	return ctx
}

func (c *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (c *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestQuestionsTakeFewRoundTrips: queries that do not depend on each other are sent at once.
func TestQuestionsTakeFewRoundTrips(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	entry := r.die(1, nil)
	for n := range 5 {
		r.die(n+2, nil)
	}
	group := pgtest.Value[uuid.UUID](t, r.subject.pool, `select dlq_group_uuid from postrider.dlq_entry where dlq_entry_uuid = $1`, entry)
	c := &trips{}
	cfg := r.subject.pool.Config()
	cfg.ConnConfig.Tracer, cfg.MaxConns = c, 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	d, err := NewInvestigations(RedriverConfig{Pool: pool, Auditor: r.audit, Exceptions: exceptions{relaypostgres.NewStore(pool, relaypostgres.StoreOptions{})}})
	if err != nil {
		t.Fatal(err)
	}
	find := func(q dlq.Search) func() error {
		return func() error {
			page, err := d.Find(t.Context(), q)
			if err == nil && len(page.Entries) == 0 {
				err = fmt.Errorf("nothing was found")
			}
			return err
		}
	}
	// Each begins and commits. The relay is asked which pending events halt their key.
	for name, q := range map[string]struct {
		most int
		ask  func() error
	}{
		"the newest":   {5, find(dlq.Search{})},
		"pending":      {5, find(dlq.Search{Filter: dlq.Filter{Status: dlq.Pending}})},
		"of a group":   {6, find(dlq.Search{Filter: dlq.Filter{Group: group}})},
		"of a message": {6, find(dlq.Search{Filter: dlq.Filter{Message: "FOR the"}})},
		"one":          {4, func() error { _, err := d.Show(t.Context(), entry); return err }},
		"a group":      {3, func() error { _, err := d.ShowGroup(t.Context(), group); return err }},
		"groups":       {4, func() error { _, err := d.ListGroups(t.Context(), dlq.GroupSearch{}); return err }},
		"numbers":      {3, func() error { _, err := d.Stats(t.Context()); return err }},
	} {
		c.asked = nil
		if err := q.ask(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(c.asked) > q.most {
			t.Errorf("%s: %d round trips, at most %d are needed: %q", name, len(c.asked), q.most, c.asked)
		}
	}
}

// TestWhatIsKnownIsLookedUpByIndexes: statements that look up keys are planned once, no matter what the tables hold then.
func TestWhatIsKnownIsLookedUpByIndexes(t *testing.T) {
	t.Parallel()
	r := newRedriving(t) // statistics know nothing of the tables, as when a session is older than they are
	if _, err := r.RecordLetters(t.Context(), dlqtest.Letters(dlqtest.Event(1, 1))); err != nil {
		t.Fatal(err)
	}
	n := 0
	id, ids := "'"+newUUID().String()+"'", "array['"+newUUID().String()+"']::uuid[]"
	for begin, statements := range map[string][][3]string{
		beginKnown: {
			{entryGet, id, "dlq_entry_pkey"}, {letterList, id + ", 10", "dlq_letter_entry"}, {redriveList, id + ", 10", "dlq_redrive_dlq_entry_uuid_generation_key"},
			{operationOfEntry, id + ", 10", "dlq_operation_item_entry"}, {entryEvents, ids, "dlq_entry_pkey"}, {entryOfTask, "'00000000-0000-7000-8000-000000000001'", "dlq_entry_task"},
		},
		// Also after a search that allowed no indexes, and one that allowed nothing else.
		beginRead + ";" + gathering + ";" + known:  {{entryMany, ids, "dlq_entry_pkey"}, {entryEvents, ids, "dlq_letter_entry"}},
		beginRead + ";" + alongIndex + ";" + known: {{entryMany, ids, "dlq_redrive_dlq_entry_uuid_generation_key"}, {entryEvents, ids, "dlq_entry_pkey"}},
	} {
		err := pgx.BeginTxFunc(t.Context(), r.subject.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
			for _, s := range statements {
				n++
				if _, err := tx.Exec(t.Context(), fmt.Sprintf("prepare known_%d as %s", n, s[0])); err != nil {
					return fmt.Errorf("%w in %s", err, s[0])
				}
				rows, err := tx.Query(t.Context(), fmt.Sprintf("explain execute known_%d (%s)", n, s[1]))
				if err != nil {
					return err
				}
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					return err
				}
				plan := strings.Join(lines, "\n")
				if !strings.Contains(plan, s[2]) {
					t.Errorf("not by %s:\n%s\n%s", s[2], s[0], plan)
				}
				for _, walk := range []string{"Seq Scan", "Hash Join", "Merge Join"} {
					if strings.Contains(plan, walk) {
						t.Errorf("a walk over a table:\n%s\n%s", s[0], plan)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestTheFirstOfManyGroupsAreReadFromTheirIndex: one step down it for each.
func TestTheFirstOfManyGroupsAreReadFromTheirIndex(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	tx := afterOldOutage(t, r, beginRead+";"+alongIndex)
	const pairs = ` from postrider.dlq_count order by dlq_group_uuid, resolution_status`
	groups, statuses := pgtest.Column[uuid.UUID](t, tx, `select dlq_group_uuid`+pairs), pgtest.Column[string](t, tx, `select resolution_status::text`+pairs)
	plan := explained(t, tx, "(analyze, timing off) "+searchFirsts, groups, statuses, nil, nil, "", "", nil, nil, 3)
	if !strings.Contains(plan, "Index Only Scan Backward using dlq_entry_group") || !regexp.MustCompile(fmt.Sprintf(`rows=1(\.00)? loops=%d\)`, len(groups))).MatchString(plan) {
		t.Errorf("more than the first of each is read:\n%s", plan)
	}
}
