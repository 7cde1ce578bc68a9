package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// side is one system that takes events from a table to Kafka, or a table without a reader.
type side interface {
	// title names it in tables.
	title() (name, settings string)
	// outbox is the table that its events are written to.
	outbox() *outboxTable
	// prepare makes what must be there before rows are, beside the table.
	prepare(ctx context.Context, s *stage) error
	// load brings n events into the table, from a number on.
	load(ctx context.Context, s *stage, first, n int) error
	// start runs it and returns when it works, or will without being told; nil where nothing runs.
	start(ctx context.Context, s *stage) (process, error)
	// warming is how many events it needs until it runs as it does later.
	warming() int
}

// warmEvents are for programs that are compiled, warmJavaEvents for a Java machine.
const warmEvents, warmJavaEvents = 30_000, 300_000

// alone is a table with nothing running. It has what sides have in common, too.
type alone struct{ table outboxTable }

func (a alone) title() (name, settings string)               { return a.table.name, "nothing running" }
func (a alone) outbox() *outboxTable                         { return &a.table }
func (alone) prepare(context.Context, *stage) error          { return nil }
func (alone) start(context.Context, *stage) (process, error) { return nil, nil }
func (alone) warming() int                                   { return warmEvents }
func (a alone) load(ctx context.Context, s *stage, first, n int) error {
	return a.table.load(ctx, s.d.conn, first, n, copyAtOnce, func(seq int) event { return s.o.event(s.topic, seq) })
}

// choice is a side by the name that -sides has for it.
type choice struct {
	name string
	side func(r *rig) side
	// only names the one broker that it is measured on; any where it is empty.
	only string
	// slow sides get smaller backlogs, and a limited time for them.
	slow bool
}

// choices are all sides that carry events, Postrider's defaults first.
var choices = []choice{
	{name: "postrider", side: func(*rig) side { return newPostrider(nil) }},
	{name: "floor", side: func(*rig) side { return floorSide }},
	{name: "logical", side: func(*rig) side { return logicalSide }},
	{name: "poller", side: func(*rig) side { return pollerSide }},
	{name: "debezium", side: func(*rig) side { return newDebezium(false) }, only: "kafka"},
	{name: "debezium-tuned", side: func(*rig) side { return newDebezium(true) }, only: "kafka"},
	{name: "watermill", side: func(r *rig) side { return peer{r, "watermill", "default"} }, only: "kafka", slow: true},
	{name: "watermill-tuned", side: func(r *rig) side { return peer{r, "watermill", "tuned"} }, only: "kafka", slow: true},
	{name: "river", side: func(r *rig) side { return peer{r, "river", "default"} }, only: "kafka", slow: true},
	{name: "river-tuned", side: func(r *rig) side { return peer{r, "river", "tuned"} }, only: "kafka", slow: true},
}

func choiceNames() []string { return pick(choices, func(c choice) string { return c.name }) }

// carriers are the chosen ones of these sides on a broker, and below them Postrider with the settings of -postrider.
// Without names all are meant.
func (r *rig) carriers(b *broker, names ...string) []side {
	var out []side
	for _, c := range choices {
		if slices.Contains(r.o.sides, c.name) && (len(names) == 0 || slices.Contains(names, c.name)) && (c.only == "" || c.only == b.kind || r.o.everySide) {
			out = append(out, c.side(r))
		}
	}
	if len(names) == 0 || slices.Contains(names, "postrider") {
		for _, settings := range r.o.postrider {
			out = append(out, newPostrider(settings))
		}
	}
	return out
}

// slow reports whether a side gets the smaller backlogs.
func slow(s side) bool { _, is := s.(peer); return is }

// sidesOf checks a list of names.
func sidesOf(list string) ([]string, error) {
	names := split(list)
	for _, n := range names {
		if !slices.Contains(choiceNames(), n) {
			return nil, fmt.Errorf("-sides: %q is none of %s", n, strings.Join(choiceNames(), ", "))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("-sides must name at least one of %s", strings.Join(choiceNames(), ", "))
	}
	return names, nil
}
