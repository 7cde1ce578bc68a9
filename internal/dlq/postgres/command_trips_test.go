package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	relaypostgres "github.com/postrider/postrider/internal/relay/postgres"
)

// TestACommandTakesFewRoundTrips: a person waits for them. The number of a call waits for the disk of the desk, because the source
// must not hear a number that the desk can lose. What the desk notes of the source, and its answers, do not.
func TestACommandTakesFewRoundTrips(t *testing.T) {
	t.Parallel()
	c := newCommanding(t)
	entry := c.dieThere(1, true)
	count := &trips{}
	cfg := c.subject.pool.Config()
	cfg.ConnConfig.Tracer, cfg.MaxConns = count, 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	desk, err := NewRedriver(RedriverConfig{Pool: pool, Auditor: c.audit, Exceptions: exceptions{relaypostgres.NewStore(pool, relaypostgres.StoreOptions{})}})
	if err != nil {
		t.Fatal(err)
	}
	desk.patience = 0
	most := func(what string, most int) {
		t.Helper()
		if len(count.asked) > most {
			t.Errorf("%s: %d round trips, at most %d are needed: %q", what, len(count.asked), most, count.asked)
		}
	}
	if _, err := desk.Redrive(t.Context(), dlq.RedriveRequest{Entries: c.pendingEntries(), Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	most("a request", 12)
	count.asked = nil
	if sent, err := desk.SendCommands(t.Context(), deskName, "orders", c.source); err != nil || sent.Answered != 1 || sent.More {
		t.Fatalf("%+v, %v", sent, err)
	}
	most("a call", 16)
	for name, w := range map[string]struct {
		statement string
		waits     bool
	}{"the number of the call": {sourceDraw, true}, "what is noted of the source": {sourceNote, false}, "an act": {commandAnswer, false}} {
		if waits := count.waited(t, w.statement); waits != w.waits {
			t.Errorf("%s waits for the disk: %v, want %v", name, waits, w.waits)
		}
	}
	if status, _ := c.status(entry); status != dlq.Pending {
		t.Errorf("the investigation is %s", status)
	}
	// The source would judge a refusal again, if the desk lost it.
	second := c.dieThere(2, false)
	mustExec(t, c.source, `update postrider.outbox_exception set episode = 2 where id = $1`, outboxID(2))
	if _, err := desk.Redrive(t.Context(), dlq.RedriveRequest{Entries: []uuid.UUID{second}, Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	count.asked = nil
	if sent, err := desk.SendCommands(t.Context(), deskName, "orders", c.source); err != nil || sent.Answered != 1 {
		t.Fatalf("%+v, %v", sent, err)
	}
	c.wantAnswers("redrive 2 in_place", "redrive 3 stale")
	if !count.waited(t, commandAnswer) {
		t.Error("a refusal does not wait for the disk")
	}
}

// waited reports whether the commit of the transaction waits for the disk in which a statement was asked first.
func (c *trips) waited(t *testing.T, statement string) bool {
	t.Helper()
	i := slices.Index(c.asked, statement)
	if i < 0 {
		t.Fatalf("it was not asked: %s", statement)
	}
	for i > 0 && !strings.HasPrefix(c.asked[i], "begin") {
		i--
	}
	return !strings.Contains(c.asked[i], "synchronous_commit = off")
}
