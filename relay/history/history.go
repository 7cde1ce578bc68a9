// Package history judges what a run of the relay did: from what was committed, what was
// dead-lettered and what the topics hold it tells lost, phantom, duplicated and reordered events. It
// shares no code with the relay, so that it cannot share its mistakes.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Event is one event that a committed transaction wrote.
type Event struct {
	// ID is unique over the whole run, also among events that were rolled back.
	ID string
	// Subject is topic and key: what order is kept within. Empty for events without a key.
	Subject string
	// Seq is the position within the subject in commit order, taken under a lock on the subject.
	Seq int64
	// Poison says that the event can never be delivered: it belongs among the dead letters, and no
	// other does.
	Poison bool
}

// Read is one record found in a topic.
type Read struct {
	ID      string
	Subject string
	// Partition names topic and partition; Offset is the position there.
	Partition string
	Offset    int64
}

// Verdict is what a history amounts to.
type Verdict struct {
	// Committed, Delivered and DeadLettered count distinct events.
	Committed, Delivered, DeadLettered int
	// Duplicates counts surplus copies in the topics; they are allowed after faults only.
	Duplicates int
	// Lost are committed events that are neither in their topic nor dead-lettered.
	Lost []string
	// Phantoms are records that no committed transaction wrote.
	Phantoms []string
	// Misplaced are records found under another subject than they were written with, or in more than
	// one partition.
	Misplaced []string
	// Misjudged are poison events that were delivered, and others that were dead-lettered.
	Misjudged []string
	// Reordered are events whose first occurrence came before that of an earlier event of their subject.
	Reordered []string
}

// Err returns nil when nothing was lost, invented, misplaced, misjudged or reordered, and an error that counts
// what was and shows examples otherwise. Duplicates are for the caller to judge.
func (v Verdict) Err() error {
	var wrong []string
	for _, k := range []struct {
		name string
		ids  []string
	}{{"lost", v.Lost}, {"phantom", v.Phantoms}, {"misplaced", v.Misplaced}, {"misjudged", v.Misjudged}, {"reordered", v.Reordered}} {
		if len(k.ids) > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s (such as %s)", len(k.ids), k.name, strings.Join(k.ids[:min(3, len(k.ids))], ", ")))
		}
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("the history is wrong: %s", strings.Join(wrong, "; "))
}

// String is the verdict in one line.
func (v Verdict) String() string {
	return fmt.Sprintf("committed %d, delivered %d, dead-lettered %d, duplicates %d, lost %d, phantom %d, misplaced %d, misjudged %d, reordered %d",
		v.Committed, v.Delivered, v.DeadLettered, v.Duplicates, len(v.Lost), len(v.Phantoms), len(v.Misplaced), len(v.Misjudged), len(v.Reordered))
}

// Check judges a finished run. deadLettered are the ids of events that were given up.
func Check(committed []Event, reads []Read, deadLettered []string) Verdict {
	v := Verdict{Committed: len(committed)}
	events := make(map[string]Event, len(committed))
	for _, e := range committed {
		events[e.ID] = e
	}
	dead := make(map[string]bool, len(deadLettered))
	for _, id := range deadLettered {
		dead[id] = true
	}
	v.DeadLettered = len(dead)

	reads = slices.Clone(reads)
	slices.SortStableFunc(reads, func(a, b Read) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	seen := make(map[string]Read, len(reads))
	last := map[string]int64{}
	for _, r := range reads {
		e, ok := events[r.ID]
		if !ok {
			v.Phantoms = append(v.Phantoms, r.ID)
			continue
		}
		first, again := seen[r.ID]
		if r.Subject != e.Subject || again && e.Subject != "" && first.Partition != r.Partition {
			v.Misplaced = append(v.Misplaced, r.ID)
		}
		if again {
			v.Duplicates++
			continue
		}
		seen[r.ID] = r
		v.Delivered++
		if e.Subject == "" {
			continue
		}
		if e.Seq < last[e.Subject] {
			v.Reordered = append(v.Reordered, r.ID)
		}
		last[e.Subject] = max(last[e.Subject], e.Seq)
	}
	for _, e := range committed {
		_, delivered := seen[e.ID]
		if !delivered && !dead[e.ID] {
			v.Lost = append(v.Lost, e.ID)
		}
		if e.Poison && delivered || !e.Poison && dead[e.ID] {
			v.Misjudged = append(v.Misjudged, e.ID)
		}
	}
	return v
}
