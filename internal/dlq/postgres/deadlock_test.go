package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// TestDeadlocksAreMadeAgain: transactions that lock the same rows in another order cost no caller an error.
func TestDeadlocksAreMadeAgain(t *testing.T) {
	t.Parallel()
	const entry, group = `select from postrider.dlq_entry where dlq_entry_uuid = $1 for update`, `select from postrider.dlq_group where dlq_group_uuid = $1 for update`
	for name, c := range map[string]struct {
		// The other one locks the first thing, and when this one waits for it, the second, which this one has.
		first, second func(entries []uuid.UUID, group uuid.UUID) (query string, id uuid.UUID)
		do            func(ctx context.Context, r *redriving, entries []uuid.UUID, group uuid.UUID) error
		done          string
	}{
		"redrive": {
			first:  func(entries []uuid.UUID, _ uuid.UUID) (string, uuid.UUID) { return entry, entries[1] },
			second: func(entries []uuid.UUID, _ uuid.UUID) (string, uuid.UUID) { return entry, entries[0] },
			do: func(ctx context.Context, r *redriving, entries []uuid.UUID, _ uuid.UUID) error {
				_, err := r.Redrive(ctx, dlq.RedriveRequest{Entries: entries, Actor: "ada"})
				return err
			},
			done: `select count(*) from postrider.dlq_redrive`,
		},
		"group": {
			first:  func(_ []uuid.UUID, id uuid.UUID) (string, uuid.UUID) { return group, id },
			second: func(entries []uuid.UUID, _ uuid.UUID) (string, uuid.UUID) { return entry, entries[0] },
			do: func(ctx context.Context, r *redriving, _ []uuid.UUID, id uuid.UUID) error {
				done, err := r.people().ResolveGroup(ctx, id, dlq.GroupResolution{Actor: "ada"})
				if err == nil && (done.Closed != 2 || done.Left != 0) {
					err = errors.New("not all were closed")
				}
				return err
			},
			done: `select count(*) from postrider.dlq_entry where resolution_status = 'manually_resolved'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRedriving(t)
			entries := []uuid.UUID{r.die(1, nil), r.die(2, nil)}
			slices.SortFunc(entries, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
			id := groupOf(t, r.subject, entries[0])
			other, err := r.subject.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
			lock := func(query string, id uuid.UUID) error {
				_, err := other.Exec(t.Context(), query, id)
				return err
			}
			// The other one waits for a deadlock longer, so that it is not the one that gives way.
			if _, err := other.Exec(t.Context(), `set local deadlock_timeout = '1h'`); err != nil {
				t.Fatal(err)
			}
			if err := lock(c.first(entries, id)); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- c.do(t.Context(), r, entries, id) }()
			untilWaiting(t, r.subject.pool)
			if err := errors.Join(lock(c.second(entries, id)), other.Commit(t.Context())); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if n := r.count(c.done); n != 2 || len(r.audit.actions) != 1 {
				t.Errorf("%d are done, %q", n, r.audit.actions)
			}
		})
	}
}
