package postgres

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// TestRedactedIsRevealed: a value that a rule hides is nowhere but in the letter. The letter is shown whole to a person
// who may see it, and the audit log says so.
func TestRedactedIsRevealed(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	redactor, err := dlq.NewRedactor(dlq.RedactionRules{Paths: []string{"$.n"}, Headers: []string{"TRACE"}})
	if err != nil {
		t.Fatal(err)
	}
	r.subject.redactor = redactor
	d := r.people()
	d.redactor = redactor
	entry := r.die(4, nil)
	shown, err := d.Show(t.Context(), entry)
	if err != nil || strings.Contains(string(shown.Snapshot), `"n": 4`) || strings.Count(string(shown.Snapshot), dlq.Redacted) != 2 {
		t.Fatalf("%s, %v", shown.Snapshot, err)
	}
	if l := shown.Letters[0]; l.Payload != nil || l.Key != nil || string(l.Headers[0].Value) != dlq.Redacted || l.PayloadKind != dlq.Inline {
		t.Errorf("%+v", l)
	}
	l, err := d.Reveal(t.Context(), dlq.RevealRequest{Entry: entry, Reason: "ticket 7", Actor: "ada"})
	if err != nil || string(l.Payload) != `{"n":4}` || string(l.Key) != "key-4" || string(l.Headers[0].Value) != "4" {
		t.Errorf("%+v, %v", l, err)
	}
	if want := []string{"payload.reveal entry " + entry.String()}; !slices.Equal(r.audit.actions, want) {
		t.Errorf("audit log: %q", r.audit.actions)
	}
	for name, q := range map[string]dlq.RevealRequest{
		"unknown": {Entry: uuid.New(), Actor: "ada"}, "another letter": {Entry: entry, LetterID: "event:x:1", Actor: "ada"},
	} {
		if _, err := d.Reveal(t.Context(), q); !errors.Is(err, dlq.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, q := range map[string]dlq.RevealRequest{"no actor": {Entry: entry}, "nothing": {Actor: "ada"}, "NUL": {Entry: entry, Actor: "ada", Reason: "\x00"}} {
		if _, err := d.Reveal(t.Context(), q); !errors.Is(err, dlq.ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.audit.refuse = errors.New("disk full")
	if l, err := d.Reveal(t.Context(), dlq.RevealRequest{Entry: entry, Actor: "ada"}); !errors.Is(err, r.audit.refuse) || l.Payload != nil {
		t.Errorf("without an audit log: %+v, %v", l, err)
	}
}

// TestWhatALetterRefersToIsRevealed from the outbox, as long as that has it.
func TestWhatALetterRefersToIsRevealed(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	entry := r.die(5, func(l *dlq.Letter) {
		l.Payload, l.PayloadKind, l.Key, l.KeyKind, l.Headers = nil, dlq.Reference, nil, dlq.Reference, nil
	})
	l, err := d.Reveal(t.Context(), dlq.RevealRequest{Entry: entry, Actor: "ada"})
	if err != nil || string(l.Payload) != `{"n":5}` || l.PayloadKind != dlq.Inline || string(l.Key) != "key-5" || len(l.Headers) != 1 || l.Headers[0].Name != "trace" {
		t.Errorf("%+v, %v", l, err)
	}
	mustExec(t, r.subject.pool, `delete from postrider.outbox_event`)
	if l, err = d.Reveal(t.Context(), dlq.RevealRequest{Entry: entry, Actor: "ada"}); err != nil || string(l.Payload) != `{"n":5}` || string(l.Key) != "key-5" {
		t.Errorf("from the copy: %+v, %v", l, err)
	}
	mustExec(t, r.subject.pool, `delete from postrider.outbox_exception`)
	if l, err = d.Reveal(t.Context(), dlq.RevealRequest{Entry: entry, Actor: "ada"}); err != nil || l.PayloadKind != dlq.Reference || l.Payload != nil {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	d := r.people()
	entry := r.die(1, nil)
	r.redrive(entry)
	shown, err := d.Show(t.Context(), entry)
	if err != nil || shown.Redrive != dlq.Queued || len(shown.Redrives) != 1 || shown.Redrives[0].Generation != 1 || shown.Redrives[0].State != dlq.Queued ||
		shown.Redrives[0].Actor != "ada" || shown.Attempts == nil || *shown.Attempts != 5 || len(shown.Letters) != 1 {
		t.Errorf("%+v, %v", shown, err)
	}
	r.record(dlqtest.Letters(dlqtest.Task(2, 1))[0])
	task := dlq.Subject{Type: dlq.SubjectTask, ID: dlqtest.EventID(2).String()}
	if shown, err = d.ShowTask(t.Context(), dlqtest.EventID(2)); err != nil || shown.Subject != task {
		t.Errorf("%+v, %v", shown, err)
	}
	_, byID := d.Show(t.Context(), uuid.New())
	_, byTask := d.ShowTask(t.Context(), uuid.New())
	for _, err := range []error{byID, byTask} {
		if !errors.Is(err, dlq.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	}
}
