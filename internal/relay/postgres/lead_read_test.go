package postgres

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/relay"
)

// TestDeepPages: what a statement brings at once is no more than a batch may have, for the deepest batches too. Payloads that
// are read by themselves for that are whole.
func TestDeepPages(t *testing.T) {
	t.Parallel()
	for _, q := range []relay.Question{{Events: 1, Bytes: 64 << 20}, {Events: 5000, Bytes: 64 << 20}, {Events: 10_000, Bytes: 64 << 20}, {Events: 50_000, Bytes: 64 << 20}, {Events: 5000, Bytes: 6 << 20}} {
		if most := int64(inlineBytes(&q)) * int64(q.Events); most > q.Bytes {
			t.Errorf("a page of %d events may have %d bytes, and %d are read at once", q.Events, q.Bytes, most)
		}
	}
	f := newFixture(t)
	f.exec(`insert into postrider.outbox_event (topic, key, payload)
		select 't', convert_to(n::text, 'UTF8'), convert_to(repeat(chr(97 + n % 26), n * 400), 'UTF8') from generate_series(0, 20) n`)
	page, err := f.leader().Read(t.Context(), relay.Question{Events: 50_000, Bytes: 64 << 20})
	f.done(err)
	if len(page.Events) != 21 {
		t.Fatalf("%d events", len(page.Events))
	}
	for n := range page.Events {
		payload := page.Events[n].Payload
		if len(payload) != 400*n {
			t.Errorf("event %d has %d bytes", n, len(payload))
		}
		for _, c := range payload {
			if c != byte('a'+n%26) {
				t.Errorf("event %d has the payload %.20q", n, payload)
				break
			}
		}
	}
	page, err = f.leader().Read(t.Context(), relay.Question{Events: 50_000, Bytes: 20_000})
	f.done(err)
	if n := len(page.Events); n != 10 || !page.More { // 400 × (0 + … + 9), and the keys
		t.Errorf("a page of 20000 bytes has %d events, more: %v", n, page.More)
	}
}

// TestGapsAndLogAreReadAlike: the statement that reads a page says twice what it takes of a row, for gaps and for what is behind
// the position.
func TestGapsAndLogAreReadAlike(t *testing.T) {
	t.Parallel()
	var columns []string
	for _, half := range strings.Split(logRead, "union all\n(select ")[1:] {
		list, _, found := strings.Cut(half, "\n from ")
		if !found {
			t.Fatalf("it reads from no table:\n%s", half)
		}
		columns = append(columns, strings.Join(strings.Fields(list), " "))
	}
	if len(columns) != 2 || columns[0] != columns[1] || !strings.HasPrefix(columns[0], "e.id, e.event_id, ") {
		t.Errorf("gaps and log are not read alike:\n%s", strings.Join(columns, "\n"))
	}
}
