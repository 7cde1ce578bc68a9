package soak

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/testenv/history"
)

// drain waits until no event waits any more, and reports whether that came in time.
func (n *nemesis) drain(until time.Time) bool {
	return n.none(until, `select
		(select count(*) from (select from postrider.v_outbox_event where state = 'pending' limit 1) e) +
		(select count(*) from (select from postrider.v_outbox_event where state = 'scheduled' limit 1) e) +
		(select count(*) from (select from postrider.v_outbox_event where state = 'parked' limit 1) e) +
		(select count(*) from (select from postrider.v_outbox_event where state = 'exhausted' limit 1) e)`)
}

// collected waits until each dead letter is stored. When that does not come in time, the verdict says which
// are not investigated.
func (n *nemesis) collected(until time.Time) {
	n.none(until, `select count(*) from postrider.outbox_exception e
		where e.state = 'dead_lettered' and not exists (select from postrider.dlq_letter l where l.event_id = e.event_id)`)
}

func (n *nemesis) none(until time.Time, query string) bool {
	for {
		var count int
		if err := n.pool.QueryRow(n.t.Context(), query).Scan(&count); err == nil && count == 0 {
			return true
		}
		if time.Now().After(until) {
			return false
		}
		rest(50 * time.Millisecond)
	}
}

// history gathers what there is to know of the run.
func (n *nemesis) history() history.History {
	ctx, cancel := context.WithTimeout(n.t.Context(), 2*time.Minute)
	defer cancel()
	h := history.History{Writes: n.writes, Faults: n.faults, Aftermath: aftermath, Patience: n.pace.patience}
	must := func(what string, err error) {
		n.t.Helper()
		if err != nil {
			n.t.Fatalf("%s: %v", what, err)
		}
	}
	records, err := ReadTopics(ctx, n.direct, n.topics.all()...)
	must("read the topics", err)
	h.Reads, err = readsOf(records)
	must("read the topics", err)
	for i := range h.Reads {
		if strings.HasPrefix(h.Reads[i].Partition, n.topics.mortal+"/") {
			h.Reads[i].Life = len(n.lives)
		}
	}
	for life, records := range n.lives {
		reads, err := readsOf(records)
		must("read a deleted topic", err)
		for i := range reads {
			reads[i].Life = life
		}
		h.Reads = append(h.Reads, reads...)
	}
	letters, err := ReadTopics(ctx, n.direct, n.topics.dlq)
	must("read the dead letters", err)
	n.lettersAt = timesOf(letters)
	h.DeadLettered, err = deadLettered(ctx, n.pool, letters)
	must("name the dead letters", err)
	h.Committed, err = Committed(ctx, n.pool)
	must("read what was committed", err)
	destroyed, err := n.destroyedIDs()
	must("find what was destroyed", err)
	for i := range h.Committed {
		h.Committed[i].Destroyed = destroyed[h.Committed[i].ID]
	}
	h.Waiting, err = n.ids(ctx, `select convert_from(substr(e.payload, 1, 36), 'UTF8') from postrider.v_outbox_event v join postrider.outbox_event e using (id)
		where v.state not in ('published', 'dead_lettered')`)
	must("find what waits", err)
	h.Investigated, err = n.ids(ctx, `select coalesce(convert_from(substr(e.payload, 1, 36), 'UTF8'), d.subject_id)
		from postrider.dlq_entry d left join postrider.outbox_event e on e.event_id::text = d.subject_id`)
	must("read the investigations", err)
	if h.Investigated == nil {
		h.Investigated = []string{}
	}
	return h
}

func (n *nemesis) ids(ctx context.Context, query string, args ...any) ([]string, error) {
	rows, err := n.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// ack is when a relay was told that the mortal topic has an event.
type ack struct {
	id     string
	at     time.Time
	offset string
}

// acked reads what the relays noted.
func (n *nemesis) acked() ([]ack, error) {
	raw, err := os.ReadFile(n.acks())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []ack
	for line := range strings.Lines(string(raw)) {
		var a ack
		var partition, micros int64
		var offset string
		if _, err := fmt.Sscanf(line, "%s %d %s %d\n", &a.id, &partition, &offset, &micros); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		a.at, a.offset = time.UnixMicro(micros), fmt.Sprintf("%d@%s", partition, offset)
		all = append(all, a)
	}
	return all, nil
}

// destroyedIDs are the events that the mortal topic acknowledged after it was read and before it was created
// again.
func (n *nemesis) destroyedIDs() (map[string]bool, error) {
	acks, err := n.acked()
	all := map[string]bool{}
	for _, a := range acks {
		for _, d := range n.destroyed {
			if !a.at.Before(d.From) && !a.at.After(d.To) {
				all[a.id] = true
			}
		}
	}
	return all, err
}

// row is a line of the report: what happened while a kind of fault lasted.
type row struct {
	times                            int
	lasted                           time.Duration
	ok, fail, unknown, delivered, dl int
	lost, reordered                  int // events that were written, or appended, while it lasted
}

// tally counts what happened while each fault lasted, and over the whole run. What happened while several lasted counts for
// each.
func (n *nemesis) tally(h history.History, v history.Verdict) (rows map[string]*row, total row) {
	rows = map[string]*row{}
	for _, f := range h.Faults {
		if rows[f.Name] == nil {
			rows[f.Name] = &row{}
		}
		rows[f.Name].times++
		rows[f.Name].lasted += f.To.Sub(f.From)
	}
	count := func(at time.Time, add func(*row)) {
		add(&total)
		during := map[string]bool{} // the same fault may overlap itself where the watch saw it twice
		for _, f := range h.Faults {
			if !at.Before(f.From) && !at.After(f.To) && !during[f.Name] {
				during[f.Name] = true
				add(rows[f.Name])
			}
		}
	}
	for _, w := range h.Writes {
		count(w.At, func(r *row) {
			switch w.Result {
			case history.OK:
				r.ok++
			case history.Fail:
				r.fail++
			case history.Unknown:
				r.unknown++
			}
		})
	}
	for _, r := range h.Reads {
		count(r.At, func(r *row) { r.delivered++ })
	}
	for _, at := range n.lettersAt {
		count(at, func(r *row) { r.dl++ })
	}
	written, appended := map[string]time.Time{}, map[string]time.Time{}
	for _, e := range h.Committed {
		written[e.ID] = e.At
	}
	for _, r := range h.Reads {
		appended[r.ID] = r.At
	}
	for _, id := range v.Lost {
		count(written[id], func(r *row) { r.lost++ })
	}
	for _, id := range v.Reordered {
		count(appended[id], func(r *row) { r.reordered++ })
	}
	total.times = len(h.Faults)
	return rows, total
}

// report is the table of a run.
func (n *nemesis) report(h history.History, v history.Verdict, drained bool, took time.Duration) string {
	rows, total := n.tally(h, v)
	committed := map[string]bool{}
	for _, e := range h.Committed {
		committed[e.ID] = true
	}
	became := 0
	for _, w := range h.Writes {
		if w.Result == history.Unknown && committed[w.ID] {
			became++
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d on %s, %v, starts: %s\n", n.seed, n.broker, time.Since(n.began).Round(time.Second), n.starts())
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "times\tseconds\tok\tfail\tunknown\tdelivered\tdead letters\tduplicates after\t  fault")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := rows[name]
		fmt.Fprintf(table, "%d\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\t  %s\n", r.times, r.lasted.Seconds(), r.ok, r.fail, r.unknown, r.delivered, r.dl, v.After[name], name)
	}
	_ = table.Flush()
	fmt.Fprintf(&out, "writes: ok %d, fail %d, unknown %d (%d had committed); acknowledged by a topic that was deleted: %d\n",
		total.ok, total.fail, total.unknown, became, v.Destroyed)
	fmt.Fprintf(&out, "relays that died at a step: %v\n", n.diedAt)
	fmt.Fprintf(&out, "%s\n", v)
	fmt.Fprintf(&out, "the slowest event was under way for %v outside of faults and aftermaths\n", v.Slowest.Round(time.Millisecond))
	result := "kept every promise"
	if v.Err() != nil {
		result = v.Err().Error()
	}
	fmt.Fprintf(&out, "drained and collected %v after the last fault: %v; verdict: %s", took.Round(100*time.Millisecond), drained, result)
	return out.String()
}

// trace tells, of events that broke a promise, when they were written and appended, and what was broken
// when, in seconds since the run began.
func (n *nemesis) trace(h history.History, v history.Verdict) string {
	since := func(at time.Time) string { return fmt.Sprintf("%.3f", at.Sub(n.began).Seconds()) }
	var out strings.Builder
	for _, f := range slices.SortedFunc(slices.Values(h.Faults), func(a, b history.Fault) int { return a.From.Compare(b.From) }) {
		fmt.Fprintf(&out, "%s to %s: %s\n", since(f.From), since(f.To), f.Name)
	}
	for _, wrong := range [][]string{v.Lost, v.Phantoms, v.Misplaced, v.Misjudged, v.Reordered, v.Undue, v.Late, v.Uninvestigated} {
		for _, id := range wrong[:min(3, len(wrong))] {
			fmt.Fprintf(&out, "%s:", id)
			for _, e := range h.Committed {
				if e.ID == id {
					fmt.Fprintf(&out, " written %s as %d of %s;", since(e.At), e.Seq, e.Subject)
				}
			}
			fmt.Fprint(&out, n.settlement(id, since))
			for _, r := range h.Reads {
				if r.ID == id {
					fmt.Fprintf(&out, " appended %s at %s@%d;", since(r.At), r.Partition, r.Offset)
				}
			}
			fmt.Fprintln(&out)
			out.WriteString(n.receiptsOfKey(id, since))
		}
	}
	return out.String()
}

// receiptsOfKey says of each event of an event's key which receipts have it: that which disposed of it, and that with which
// an exception went.
func (n *nemesis) receiptsOfKey(id string, since func(time.Time) string) string {
	rows, err := n.pool.Query(context.Background(), `with of_key as materialized (
			select k.id, convert_from(substr(k.payload, 1, 36), 'UTF8') as payload, k.created_at from postrider.outbox_event e
			join postrider.outbox_event k on k.topic = e.topic and k.key = e.key
			where convert_from(substr(e.payload, 1, 36), 'UTF8') = $1)
		select k.id, k.payload, k.created_at, r.number, r.term, r.at, coalesce(r.returned @> k.id, false)
		from of_key k left join postrider.outbox_receipt r on r.events @> k.id or r.returned @> k.id order by k.id, r.number`, id)
	if err != nil {
		return err.Error() + "\n"
	}
	var out strings.Builder
	var number, receipt, term *int64
	var payload string
	var written time.Time
	var at *time.Time
	var returned bool
	if _, err := pgx.ForEachRow(rows, []any{&number, &payload, &written, &receipt, &term, &at, &returned}, func() error {
		fmt.Fprintf(&out, "    %d %s written %s", *number, payload, since(written))
		if receipt != nil {
			fmt.Fprintf(&out, ", receipt %d of term %d at %s, returned %v", *receipt, *term, since(*at), returned)
		}
		out.WriteString("\n")
		return nil
	}); err != nil {
		return err.Error() + "\n"
	}
	return out.String()
}

// settlement says how an event stands, and since when.
func (n *nemesis) settlement(id string, since func(time.Time) string) string {
	var state string
	var at *time.Time
	err := n.pool.QueryRow(context.Background(), `select v.state, v.sent_at from postrider.v_outbox_event v
		where v.id = (select e.id from postrider.outbox_event e where convert_from(substr(e.payload, 1, 36), 'UTF8') = $1)`, id).Scan(&state, &at)
	switch {
	case err != nil:
		return fmt.Sprintf(" its row: %v;", err)
	case at == nil:
		return " " + state + ";"
	}
	out := fmt.Sprintf(" %s %s;", state, since(*at))
	acks, err := n.acked()
	for _, a := range acks {
		if a.id == id {
			out += fmt.Sprintf(" acknowledged %s at %s;", since(a.at), a.offset)
		}
	}
	if err != nil {
		out += " " + err.Error()
	}
	return out
}

// timesOf are when records were appended.
func timesOf(records []*kgo.Record) []time.Time {
	times := make([]time.Time, 0, len(records))
	for _, r := range records {
		times = append(times, r.Timestamp)
	}
	return times
}
