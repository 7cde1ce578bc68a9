package postgres

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// opening is an investigation that new letters of one subject open, or add to.
type opening struct {
	subject dlq.Subject
	// first is the letter that arrived first; it describes the investigation.
	first   *dlq.Letter
	letters int32
	// newest is the letter that failed last; if none has a time, the one that arrived last.
	newest *dlq.Letter
	// fingerprint names the group of a new investigation, and group is its uuid.
	fingerprint dlq.Fingerprint
	group       uuid.UUID
	// known says that the subject has an investigation, or that all of the group was closed: a new investigation has one
	// to add to, or may name the one before it.
	known bool
	// lastOccurred is the newest of the letters' times, zero when none has one.
	lastOccurred time.Time
	// pending says that the subject's pending investigation is there, and locked by us.
	pending bool
	// origin is the investigation that first's message was redriven from.
	origin origin
	// proposed is the uuid of a new investigation, entry that of the one there is in the end.
	proposed, entry uuid.UUID
}

// distinct returns the first letter of each id, in the order of their arrival.
func distinct(letters []dlq.Letter) []*dlq.Letter {
	seen := make(map[string]struct{}, len(letters))
	unique := make([]*dlq.Letter, 0, len(letters))
	for i := range letters {
		if _, twice := seen[letters[i].ID]; !twice {
			seen[letters[i].ID] = struct{}{}
			unique = append(unique, &letters[i])
		}
	}
	return unique
}

// inOrder sorts letters by id, the order in which every collector inserts them, so that no two wait for
// each other.
func inOrder(letters []*dlq.Letter) {
	slices.SortFunc(letters, func(a, b *dlq.Letter) int { return cmp.Compare(a.ID, b.ID) })
}

// openings groups letters, given in the order of their arrival, by subject, in the order in which every
// collector locks and opens.
func openings(letters []*dlq.Letter) []*opening {
	bySubject := make(map[dlq.Subject]*opening, len(letters))
	all := make([]*opening, 0, len(letters))
	for _, l := range letters {
		c := bySubject[l.Subject]
		if c == nil {
			c = &opening{subject: l.Subject, first: l, proposed: newUUID()}
			bySubject[l.Subject] = c
			all = append(all, c)
		}
		c.letters++
		if at := l.OccurredAt(); at.After(c.lastOccurred) {
			c.lastOccurred, c.newest = at, l
		} else if c.newest == nil || c.lastOccurred.IsZero() {
			c.newest = l
		}
	}
	slices.SortFunc(all, func(a, b *opening) int {
		return cmp.Or(cmp.Compare(a.subject.Type, b.subject.Type), cmp.Compare(a.subject.ID, b.subject.ID))
	})
	return all
}

// newUUID is a version 7 uuid, as the column's default makes them.
func newUUID() uuid.UUID { return uuid.Must(uuid.NewV7()) } // fails only without a random source, which does not happen

// statementBytes bounds what one statement carries, and with it the memory of the server: large letters
// are inserted by several.
const statementBytes = 16 << 20

// portions cuts items into runs of at most limit bytes, at least one item each.
func portions[T any](items []T, limit int, size func(T) int) [][]T {
	var all [][]T
	for start := 0; start < len(items); {
		end, bytes := start, 0
		for end < len(items) && (end == start || bytes+size(items[end]) <= limit) {
			bytes += size(items[end])
			end++
		}
		all = append(all, items[start:end])
		start = end
	}
	return all
}

func letterSize(l *dlq.Letter) int {
	n := 1024 + len(l.Key) + len(l.Payload) + len(l.ErrorMessage)
	for _, h := range l.Headers {
		n += len(h.Name) + len(h.Value)
	}
	return n
}
