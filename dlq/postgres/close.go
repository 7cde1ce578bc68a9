package postgres

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/dlq"
)

// closing is what investigations are closed as.
type closing struct {
	entries []uuid.UUID
	notes   []string // of each
	status  dlq.Status
	by      string
}

// underWay returns those of locked investigations of which a redrive is on its way: until that ended nobody knows what
// they came to.
func underWay(ctx context.Context, tx pgx.Tx, entries []uuid.UUID) ([]uuid.UUID, error) {
	const doing = "look for redrives on their way"
	rows, err := tx.Query(ctx, redriveUnderWay, entries)
	if err != nil {
		return nil, translate(doing, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return found, translate(doing, err)
}

// closeEntries closes those of the investigations that are pending, lets the keys go that their events halt, and
// returns them.
func closeEntries(ctx context.Context, tx pgx.Tx, keeper Keeper, c closing) ([]uuid.UUID, error) {
	closed, err := closePending(ctx, tx, c)
	if err != nil || len(closed) == 0 {
		return nil, err
	}
	return closed, releaseKeys(ctx, tx, keeper, closed)
}

func closePending(ctx context.Context, tx pgx.Tx, c closing) ([]uuid.UUID, error) {
	rows, err := tx.Query(ctx, entryClose, c.entries, string(c.status), c.notes, c.by)
	if err != nil {
		return nil, translate("close investigations", err)
	}
	closed, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	return closed, translate("close investigations", err)
}

// releaseKeys lets the keys go that the events of closed investigations halt: nobody works on what they wait for.
func releaseKeys(ctx context.Context, tx pgx.Tx, keeper Keeper, closed []uuid.UUID) error {
	events, err := haltingEvents(ctx, tx, keeper, closed)
	if err != nil || len(events) == 0 {
		return err
	}
	return keeper.ReleaseKeys(ctx, tx, slices.Sorted(maps.Keys(events)))
}

// haltingEvents returns the events of investigations that halt their key, and whose they are.
func haltingEvents(ctx context.Context, tx pgx.Tx, keeper Keeper, entries []uuid.UUID) (map[int64]uuid.UUID, error) {
	const doing = "look for the events of investigations"
	rows, err := tx.Query(ctx, haltingOf, entries)
	if err != nil {
		return nil, translate(doing, err)
	}
	events := map[int64]uuid.UUID{}
	var event int64
	var entry uuid.UUID
	if _, err = pgx.ForEachRow(rows, []any{&event, &entry}, func() error { events[event] = entry; return nil }); err != nil || len(events) == 0 {
		return nil, translate(doing, err)
	}
	halting, _, err := keeper.Halting(ctx, tx, slices.Sorted(maps.Keys(events)))
	if err != nil {
		return nil, err
	}
	out := make(map[int64]uuid.UUID, len(halting))
	for _, id := range halting {
		out[id] = events[id]
	}
	return out, nil
}

// succeed lets investigations of what was redriven and died again name the ones that they come from. Where the relay
// gave it up it closes those: the work goes on in the new ones. What was sent as a new event halts no key by the old.
func succeed(ctx context.Context, tx pgx.Tx, opened []*candidate) error {
	var entries []uuid.UUID
	var events []pgtype.UUID
	var replays []string
	for _, c := range opened {
		event := c.first.EventID
		if c.subject.Type == dlq.SubjectRecord {
			event = uuid.Nil // a consumer's: anybody may write the header
		}
		if replay := replayOf(c.first); event != uuid.Nil || replay != "" {
			entries, events, replays = append(entries, c.entry), append(events, nullUUID(event)), append(replays, replay)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, entrySucceed, entries, events, replays)
	if err != nil {
		return translate("find predecessors", err)
	}
	type pair struct {
		Entry, Predecessor uuid.UUID
		Ours               bool
	}
	pairs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pair])
	if err != nil {
		return translate("find predecessors", err)
	}
	pairs = slices.DeleteFunc(pairs, func(p pair) bool { return !p.Ours })
	if len(pairs) == 0 {
		return nil
	}
	_, err = closePending(ctx, tx, closing{
		entries: column(pairs, func(p pair) uuid.UUID { return p.Predecessor }),
		notes: column(pairs, func(p pair) string {
			return "its redrive was given up again: investigation " + p.Entry.String() + " goes on"
		}),
		status: dlq.Cancelled, by: "postrider",
	})
	return err
}

// maxReplayID is the length of the longest replay id; see dlq_replay.
const maxReplayID = 128

// replayOf is the redrive that a letter's message came from, as it says itself; empty where it does not.
func replayOf(l *dlq.Letter) string {
	for _, h := range l.Headers {
		if h.Name == dlq.HeaderReplayID && len(h.Value) <= maxReplayID && utf8.Valid(h.Value) && bytes.IndexByte(h.Value, 0) < 0 {
			return string(h.Value)
		}
	}
	return ""
}
