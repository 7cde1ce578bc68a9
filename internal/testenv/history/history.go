// Package history judges a run of the relay: from the committed events, the dead-lettered ones and the records in the
// topics it tells lost, phantom, duplicated and reordered events. It shares no code with the relay, so that it cannot
// share its mistakes.
package history

import (
	"fmt"
	"strings"
	"time"
)

// Event is one event that a committed transaction wrote.
type Event struct {
	// ID is unique over the whole run, also among events that were rolled back.
	ID string
	// Subject is topic and key; order is kept within a subject. Empty for events without a key.
	Subject string
	// Seq is the position within the subject in commit order, taken under a lock on the subject.
	Seq int64
	// Poison says that the event can never be delivered: it belongs among the dead letters, and no
	// other does.
	Poison bool
	// At is when it was written, or due if that is later; zero leaves its time unjudged.
	At time.Time
	// Destroyed says that its topic was deleted after it had acknowledged the event, which therefore need
	// not be found.
	Destroyed bool
}

// Read is one record found in a topic.
type Read struct {
	ID      string
	Subject string
	// Partition names topic and partition; Offset is the position there.
	Partition string
	Offset    int64
	// Life counts the topics of this name, when it was deleted and created again; the first is 0.
	Life int
	// At is when the broker appended it; zero leaves its time unjudged.
	At time.Time
}

// Verdict is the result of judging a history.
type Verdict struct {
	// Committed, Delivered and DeadLettered count distinct events.
	Committed, Delivered, DeadLettered int
	// Duplicates counts surplus copies in the topics; they are allowed after faults only. After counts the copies that
	// followed a fault, by its name.
	Duplicates int
	After      map[string]int
	// Undue are copies that followed no fault.
	Undue []string
	// Destroyed counts events that are nowhere because their topic was deleted.
	Destroyed int
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
	// Stuck are subjects, or ids of events without a key, that waited longer than they may.
	Stuck []string
	// Late are the events that arrived, but later than they may.
	Late []string
	// Slowest is the longest time that an event which arrived was under way while nothing was broken; it is compared
	// with the patience.
	Slowest time.Duration
	// Uninvestigated are dead-lettered events with no investigation or more than one, and others that
	// have one.
	Uninvestigated []string
}

// Err returns nil when no promise was broken, and otherwise an error that counts the breaches and shows examples.
// Duplicates of a history without times are for the caller to judge.
func (v Verdict) Err() error {
	var wrong []string
	for _, k := range []struct {
		name string
		ids  []string
	}{{"lost", v.Lost}, {"phantom", v.Phantoms}, {"misplaced", v.Misplaced}, {"misjudged", v.Misjudged}, {"reordered", v.Reordered},
		{"duplicated without a fault", v.Undue}, {"stuck", v.Stuck}, {"not investigated once", v.Uninvestigated}} {
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
	return fmt.Sprintf("committed %d, delivered %d, dead-lettered %d, duplicates %d, lost %d, phantom %d, misplaced %d, misjudged %d, reordered %d, "+
		"duplicated without a fault %d, stuck keys %d, not investigated once %d",
		v.Committed, v.Delivered, v.DeadLettered, v.Duplicates, len(v.Lost), len(v.Phantoms), len(v.Misplaced), len(v.Misjudged), len(v.Reordered),
		len(v.Undue), len(v.Stuck), len(v.Uninvestigated))
}

// Check judges a finished run by its outcome alone. deadLettered are the ids of events that were given up.
func Check(committed []Event, reads []Read, deadLettered []string) Verdict {
	return History{Committed: committed, Reads: reads, DeadLettered: deadLettered}.Check()
}
