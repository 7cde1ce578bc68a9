package postgres

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/dlq"
)

// TestOneOfManyTakesIt: of people who take an unassigned group or investigation at once, one has it.
func TestOneOfManyTakesIt(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	entry := r.record(failing(1, "row 1 refused", time.Now()))
	group := groupOf(t, r.subject, entry)
	for what, take := range map[string]func(person string) error{
		"group": func(person string) error {
			_, err := d.ChangeGroup(t.Context(), group, dlq.GroupChange{Assignee: &person, IfAssignee: ref(""), Actor: person})
			return err
		},
		"investigation": func(person string) error {
			_, err := d.Change(t.Context(), entry, dlq.Change{Assignee: &person, IfAssignee: ref(""), Actor: person})
			return err
		},
	} {
		var have atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				person := fmt.Sprintf("person %d", i)
				switch err := take(person); {
				case err == nil:
					have.Add(1)
					if err := take(person); err != nil {
						t.Errorf("%s: %s has it, and is refused the second time: %v", what, person, err)
					}
				case !errors.Is(err, dlq.ErrTaken):
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		if all.Wait(); have.Load() != 1 {
			t.Errorf("%s: %d people have taken it", what, have.Load())
		}
	}
	if _, err := d.ChangeGroup(t.Context(), group, dlq.GroupChange{IfAssignee: ref(""), Note: ref("x"), Actor: "ada"}); !errors.Is(err, dlq.ErrRequest) {
		t.Errorf("without an assignee: %v", err)
	}
}
