package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/history"
)

// TestSourcesUnderFaults breaks everything around three processes that share many sources and serve one desk, while all sources are
// written to, and while a person treats every dead letter at the desk: three of four are sent again with a payload that fits, the others
// are closed. Each source is judged by itself. Nothing is lost, copied without a fault, or out of order, the events that people sent
// again in their place included; each command acted once, by the count of triggers; and each dead letter is in the one desk, with
// its source.
//
// It runs for seconds with four sources on kfake, and in `make soak` with twenty, on a real broker too.
func TestSourcesUnderFaults(t *testing.T) {
	t.Parallel()
	total := duration(t, 0)
	brokers, p, sources, rate := []string{"kfake"}, brief, 4, 60
	if total > 0 {
		brokers, p, sources, rate = []string{"kfake", "kafka"}, long, 20, 30
		p.total, p.patience = total, 2*time.Minute
	}
	for _, broker := range brokers {
		t.Run(broker, func(t *testing.T) {
			t.Parallel()
			s := newFleetStage(t, broker == "kafka", p, sources, rate)
			product := buildtest.Program(t, "cmd/postrider")
			s.perform(product)
			newFleetRun(s, product).run()
		})
	}
}

// fleetRun is one run.
type fleetRun struct {
	*fleetStage
	seed uint64
	rng  *rand.Rand
	key  string // of the person, for the API

	played
}

func newFleetRun(s *fleetStage, product string) *fleetRun {
	s.t.Helper()
	n := seed(s.t)
	create := exec.Command(product, "apikey", "create", "--name", "ann", "--scopes", "read,resolve,redrive,redrive:edit", "-o", "json", "--database-url", s.pg.URL())
	out, err := create.Output()
	var made struct{ Token string }
	if err = errors.Join(err, json.Unmarshal(out, &made)); err != nil || made.Token == "" {
		s.t.Fatalf("make a key: %v, %s", err, out)
	}
	return &fleetRun{fleetStage: s, seed: n, rng: rand.New(rand.NewPCG(n, 80)), key: made.Token}
}

func (r *fleetRun) run() {
	fmt.Fprintf(os.Stderr, "soak: %s on %s: SOAK_SEED=%d\n", r.t.Name(), r.broker, r.seed)
	writing, stopWriting := context.WithCancel(r.t.Context())
	defer stopWriting()
	var writers sync.WaitGroup
	for _, source := range r.sources {
		writers.Go(func() {
			if err := source.work.Run(writing); err != nil {
				r.t.Error(err)
			}
		})
	}
	treating, stopTreating := context.WithCancel(r.t.Context())
	defer stopTreating()
	treated := make(chan int, 1)
	go func() { treated <- r.treat(treating) }()
	rest(time.Second) // what comes before any fault must come once

	began := time.Now()
	for first := true; first || time.Since(began) < r.pace.total; first = false {
		deck := r.shortDeck(r.rng)
		if r.pace.total > 0 {
			deck = r.deck(r.rng)
		}
		r.torment(deck, began)
	}
	ended := time.Now()
	stopWriting()
	writers.Wait()
	ctx, cancel := context.WithDeadline(r.t.Context(), ended.Add(aftermath+r.pace.patience))
	defer cancel()
	left := r.clear(ctx)
	took := time.Since(ended)
	stopTreating()
	acts := <-treated
	r.stop()

	if len(left) > 0 {
		r.t.Errorf("%v after the last fault:\n%s", took.Round(time.Second), strings.Join(left, "\n"))
	}
	if err := errors.Join(r.errs...); err != nil {
		r.t.Error(err)
	}
	if said := r.panicked(); len(said) > 0 {
		r.t.Errorf("%s", strings.Join(said, "\n"))
	}
	r.t.Logf("%d faults, %d acts of the person; clear %v after the last fault; starts: %s", len(r.faults), acts, took.Round(100*time.Millisecond), r.starts())
	r.judge()
}

// torment plays faults, two at once where they do not clash.
func (r *fleetRun) torment(deck []fault, began time.Time) {
	for len(deck) > 0 && (r.pace.total == 0 || time.Since(began) < r.pace.total) {
		first := deck[0]
		deck = deck[1:]
		var both sync.WaitGroup
		both.Go(func() { r.play(first) })
		if i := slices.IndexFunc(deck, func(f fault) bool { return !f.clashes(first) }); i >= 0 && (r.pace.total == 0 || r.rng.IntN(2) == 0) {
			second := deck[i]
			deck = slices.Delete(deck, i, i+1)
			both.Go(func() { r.play(second) })
		}
		both.Wait()
		rest(between(r.rng, r.pace.healMin, r.pace.healMax))
	}
}

// closes says whether the person closes the investigation of an event, or sends the event again.
func closes(event string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(event))
	return h.Sum32()%4 == 0
}

// treat treats open investigations until ctx ends, and returns how often the person acted. Whatever is refused, or cut off, is tried
// again.
func (r *fleetRun) treat(ctx context.Context) (acts int) {
	for ctx.Err() == nil {
		rest(200 * time.Millisecond)
		rows, err := r.pool.Query(ctx, `select e.dlq_entry_uuid::text, e.source, l.event_id::text from postrider.dlq_entry e
			join postrider.dlq_letter l using (dlq_entry_uuid) where e.resolution_status = 'pending'
			and not exists (select from postrider.dlq_redrive d where d.dlq_entry_uuid = e.dlq_entry_uuid and d.outcome is null) limit 20`)
		if err != nil {
			continue
		}
		open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Entry, Source, Event string }])
		if err != nil {
			continue
		}
		var several sync.WaitGroup
		var done atomic.Int64
		for _, o := range open {
			i := slices.IndexFunc(r.sources, func(s *fleetSource) bool { return s.name == o.Source })
			if i < 0 {
				r.t.Errorf("the investigation %s of the event %s is of the source %q", o.Entry, o.Event, o.Source)
				continue
			}
			several.Go(func() { // a request waits for the answer of its source
				if r.act(ctx, r.sources[i], o.Entry, o.Event) {
					done.Add(1)
				}
			})
		}
		several.Wait()
		acts += int(done.Load())
	}
	return acts
}

// act treats one investigation.
func (r *fleetRun) act(ctx context.Context, source *fleetSource, entry, event string) bool {
	if closes(event) {
		return r.ask(ctx, http.MethodPatch, "/v1/dlq/"+entry, map[string]any{"resolution_status": "cancelled"})
	}
	var id string
	if err := source.pool.QueryRow(ctx, `select convert_from(substr(payload, 1, 36), 'UTF8') from postrider.outbox_exception where event_id = $1`, event).Scan(&id); err != nil {
		return false
	}
	return r.ask(ctx, http.MethodPost, "/v1/dlq/requeue", map[string]any{"ids": []string{entry},
		"edit": map[string]any{"payload_text": id + strings.Repeat("y", PayloadBytes-len(id))}})
}

// ask asks one of the processes, and says whether it did what it was asked for.
func (r *fleetRun) ask(ctx context.Context, method, path string, body any) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		r.t.Error(err)
		return false
	}
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", r.ports[rand.IntN(fleetProcesses)], path), bytes.NewReader(text))
	if err != nil {
		r.t.Error(err)
		return false
	}
	req.Header.Set("X-API-Key", r.key)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if answer.StatusCode == http.StatusBadRequest || answer.StatusCode == http.StatusUnprocessableEntity || answer.StatusCode == http.StatusForbidden {
		r.t.Errorf("%s %s: %d %s", method, path, answer.StatusCode, said)
	}
	return err == nil && answer.StatusCode == http.StatusOK
}

// judge judges each source, and the desk.
func (r *fleetRun) judge() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	letters, err := ReadTopics(ctx, r.direct, r.topics.dlq)
	if err != nil {
		r.t.Fatal(err)
	}
	from := map[string]string{} // the source of each event that was given up, by its letter
	for _, l := range letters {
		from[header(l, "postrider-event-id")] = header(l, "postrider-source")
	}
	all := history.Verdict{}
	commands := 0
	for _, source := range r.sources {
		v := r.judgeSource(ctx, source, from)
		all.Committed, all.Delivered, all.DeadLettered, all.Duplicates = all.Committed+v.Committed, all.Delivered+v.Delivered, all.DeadLettered+v.DeadLettered, all.Duplicates+v.Duplicates
		if v.Delivered == 0 {
			r.t.Errorf("%s delivered nothing: the run says nothing", source.name)
		}
		commands += r.judgeCommands(ctx, source)
	}
	r.t.Logf("%d sources: committed %d, delivered %d, given up and closed %d, copies that a fault explains %d; %d redrives that sources did", len(r.sources),
		all.Committed, all.Delivered, all.DeadLettered, all.Duplicates, commands)
	if all.DeadLettered == 0 || commands == 0 || len(r.faults) == 0 {
		r.t.Error("nothing was tested")
	}
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// judgeSource judges the history of one source: the events whose investigation was closed are its dead letters, and all others arrived.
func (r *fleetRun) judgeSource(ctx context.Context, source *fleetSource, from map[string]string) history.Verdict {
	r.t.Helper()
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatalf("%s: %v", source.name, err)
		}
	}
	h := history.History{Writes: source.writes, Faults: r.faults, Aftermath: aftermath, Patience: r.pace.patience}
	records, err := ReadTopics(ctx, r.direct, source.topic)
	must(err)
	h.Reads, err = readsOf(records)
	must(err)
	for _, record := range records {
		if header(record, "postrider-source") != source.name {
			r.t.Errorf("%s has a record of the source %q", source.topic, header(record, "postrider-source"))
		}
	}
	h.Committed, err = Committed(ctx, source.pool)
	must(err)
	// Events that were given up, by their ids: as the workload knows them, and as the outbox does. What a redrive carried has the
	// id of the workload as well, and an event of its own.
	written, err := pairs(ctx, source.pool, `select distinct on (1) convert_from(substr(payload, 1, 36), 'UTF8'), event_id::text from postrider.outbox_event
		where kind <> 'redrive' order by 1, id`)
	must(err)
	entries, err := pairs(ctx, r.pool, `select l.event_id::text, string_agg(e.source || ' ' || e.resolution_status, ', ')
		from postrider.dlq_entry e join postrider.dlq_letter l using (dlq_entry_uuid) where e.source = $1 group by 1`, source.name)
	must(err)
	waiting, err := pairs(ctx, source.pool, `select convert_from(substr(e.payload, 1, 36), 'UTF8'), v.state from postrider.v_outbox_event v
		join postrider.outbox_event e using (id) where v.state not in ('published', 'dead_lettered')`)
	must(err)
	h.Waiting = slices.Collect(maps.Keys(waiting))
	poisoned := map[string]bool{} // subjects that waited for the person
	for i, e := range h.Committed {
		event := written[e.ID]
		entry, given := entries[event]
		if e.Poison != given || e.Poison && from[event] != source.name || strings.Contains(entry, ", ") {
			r.t.Errorf("%s: the event %s of the payload %s is poison: %v; the desk has the investigations %q, and the topic a letter of the source %q",
				source.name, event, e.ID, e.Poison, entry, from[event])
		}
		if !e.Poison {
			continue
		}
		poisoned[e.Subject] = true
		closed := closes(event)
		if want := source.name + map[bool]string{true: " cancelled", false: " manually_resolved"}[closed]; entry != want {
			r.t.Errorf("%s: the investigation of the event %s is %q and not %q", source.name, event, entry, want)
		}
		if h.Committed[i].Poison = closed; closed {
			h.DeadLettered = append(h.DeadLettered, e.ID)
		}
	}
	for i, e := range h.Committed {
		if poisoned[e.Subject] {
			h.Committed[i].At = time.Time{} // the person's pace is not judged
		}
	}
	v := h.Check()
	if err := v.Err(); err != nil {
		r.t.Errorf("%s: %v; %s", source.name, err, v)
	}
	return v
}

// judgeCommands holds what triggers in a source counted against what the desk was answered, and returns how many redrives there were.
func (r *fleetRun) judgeCommands(ctx context.Context, source *fleetSource) (redrives int) {
	r.t.Helper()
	acts, err := pairs(ctx, source.pool, `select what || ' ' || event_id, count(*)::text from soak.act group by 1`)
	if err != nil {
		r.t.Fatal(err)
	}
	answered, err := pairs(ctx, r.pool, `select c.answer || ' ' || case c.answer when 'new' then d.event_id else c.event_id end, count(*)::text
		from postrider.dlq_command c left join postrider.dlq_redrive d using (redrive_id)
		where c.source = $1 and c.answer in ('new', 'in_place', 'closed') group by 1`, source.name)
	if err != nil {
		r.t.Fatal(err)
	}
	for act, n := range acts {
		if strings.HasPrefix(act, "closed") {
			continue // closing again does nothing, and is answered alike
		}
		redrives++
		if n != "1" || answered[act] != "1" {
			r.t.Errorf("%s: %s was done %s times, and answered %q times", source.name, act, n, answered[act])
		}
	}
	for act := range answered {
		if acts[act] == "" && !strings.HasPrefix(act, "closed") {
			r.t.Errorf("%s answered %s, which it did not do", source.name, act)
		}
	}
	return redrives
}
