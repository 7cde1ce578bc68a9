package migrations

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Part names the rooms that are installed together. A database has the outbox alone, the outbox with tasks, or all.
type Part string

// The parts, each with the rooms that it brings. Each needs the parts before it.
const (
	// PartOutbox is the log, and the audit log of what people do to it: what a source needs.
	PartOutbox Part = "outbox"
	// PartTasks is the ledger of tasks.
	PartTasks Part = "tasks"
	// PartDesk is what people work with: investigations, keys of the API, sessions of the console.
	PartDesk Part = "desk"
)

var partOf = map[string]Part{"audit": PartOutbox, "outbox": PartOutbox, "tasks": PartTasks, "access": PartDesk, "dlq": PartDesk}

// Parts returns all parts, in order.
func Parts() []Part { return []Part{PartOutbox, PartTasks, PartDesk} }

// ParseParts reads names of parts separated by commas: outbox, or outbox,tasks, or all of them.
func ParseParts(text string) ([]Part, error) {
	var named []Part
	for name := range strings.SplitSeq(text, ",") {
		part := Part(strings.TrimSpace(name))
		if !slices.Contains(Parts(), part) {
			return nil, fmt.Errorf("%q is no part of the schema; a database has %s, or %s, or %s", part, JoinParts(Parts()[:1]), JoinParts(Parts()[:2]), JoinParts(Parts()))
		}
		named = append(named, part)
	}
	parts := Parts()[:len(slices.Compact(slices.Sorted(slices.Values(named))))]
	for _, part := range named {
		if i := slices.Index(Parts(), part); i >= len(parts) {
			return nil, fmt.Errorf("%s needs what comes before it: name %s", part, JoinParts(Parts()[:i+1]))
		}
	}
	return parts, nil
}

// JoinParts writes parts as ParseParts reads them.
func JoinParts(parts []Part) string {
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = string(part)
	}
	return strings.Join(names, ",")
}

// Part returns the part that the room comes with. A room that is not of this binary is a part of its own.
func (room *Room) Part() Part {
	if part, ok := partOf[room.Name]; ok {
		return part
	}
	return Part(room.Name)
}

// ErrMore: the database has more parts than the caller named.
var ErrMore = errors.New("the database has more than that")

// chosen returns the parts that the database is to have: what the caller names, else what the database was installed with,
// else all. Parts are added, and never taken away.
func (r *Runner) chosen(h *history) ([]Part, error) {
	if len(r.only) == 0 {
		if len(h.parts) > 0 {
			return h.parts, nil
		}
		if r.source {
			return []Part{PartOutbox}, nil
		}
		var all []Part
		for i := range r.rooms {
			if part := r.rooms[i].Part(); !slices.Contains(all, part) {
				all = append(all, part)
			}
		}
		return all, nil
	}
	for _, part := range h.parts {
		if !slices.Contains(r.only, part) {
			return nil, fmt.Errorf("migrations: %w: it was installed with %s, and %s was named; a part that is there is never taken away, because it has data: name %s, or no part",
				ErrMore, JoinParts(h.parts), JoinParts(r.only), JoinParts(h.parts))
		}
	}
	return r.only, nil
}

// choose settles which rooms the database is to have, and which parts are to be written down for that.
func (r *Runner) choose(h *history) error {
	parts, err := r.chosen(h)
	if err != nil {
		return err
	}
	for i := range r.rooms {
		if slices.Contains(parts, r.rooms[i].Part()) {
			h.rooms = append(h.rooms, &r.rooms[i])
		} else {
			h.leftOut = append(h.leftOut, &r.rooms[i])
		}
	}
	for _, part := range parts {
		if !slices.Contains(h.parts, part) && !slices.Contains(h.added, part) {
			h.added = append(h.added, part)
		}
	}
	return nil
}
