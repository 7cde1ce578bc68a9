package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/debezium"
	"github.com/postrider/postrider/internal/wire"
)

// Records is the comparison of the records that the connector wrote last with what Postrider would send for their rows.
type Records struct {
	// Verdict is same where all that could be compared are the same, differs, or not looked at.
	Verdict debezium.Verdict `json:"verdict"`
	// Says is what was found.
	Says string `json:"says"`
	// Topics are the topics that were read.
	Topics []string `json:"topics,omitempty"`
	// Read is how many records were read; Same and Different of these had their row.
	Read      int `json:"read"`
	Same      int `json:"same"`
	Different int `json:"different"`
	// RowGone is how many had no row in the table any more: they cannot be compared.
	RowGone int `json:"row_gone"`
	// WithoutID is how many had no header id, or one that the column of the identity cannot have, so that others wrote them.
	WithoutID int `json:"without_id"`
	// Differences are the first ones, at most 20.
	Differences []Difference `json:"differences,omitempty"`
}

// Difference is a record that is not as Postrider would send it.
type Difference struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// ID is the header id.
	ID string `json:"id"`
	// Parts are the parts in which the two differ.
	Parts []Part `json:"parts"`
	// Note says why Debezium's bytes cannot be made, where that is known.
	Note string `json:"note,omitempty"`
}

// mostDifferences is how many are shown.
const mostDifferences = 20

func notCompared(format string, args ...any) Records {
	return Records{Verdict: debezium.NotLookedAt, Says: fmt.Sprintf(format, args...)}
}

// compareRecords reads the last records of the routed topics, finds their rows by the header id, and compares.
func (e *examination) compareRecords(ctx context.Context) Records {
	switch {
	case e.Kafka == nil:
		return notCompared("give kafka.brokers to compare records")
	case len(e.columns) == 0:
		return notCompared("the table was not read")
	case len(e.topics) == 0:
		return notCompared("the table has no rows that say which topics there are; name topics with --topic")
	}
	expect, err := e.expectation()
	if err != nil {
		return notCompared("what Postrider would send is not known: %v", err)
	}
	found, missing, err := tail(ctx, e.Kafka, e.topics, e.Last)
	if err != nil {
		return notCompared("%v", err)
	}
	r := Records{Topics: slices.DeleteFunc(slices.Clone(e.topics), func(t string) bool { return slices.Contains(missing, t) }), Read: len(found)}
	identity, _ := e.column(e.connector.Router.ID)
	byID := map[string][]*kgo.Record{}
	for _, record := range found {
		if id := header(record, wire.HeaderID); id != "" && identity.canBe(id) {
			byID[id] = append(byID[id], record)
		} else {
			r.WithoutID++
		}
	}
	ids := make([]string, 0, len(byID))
	for id := range byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	rows, err := expect(ctx, ids)
	if err != nil {
		return notCompared("read the rows of the records: %v", err)
	}
	for _, id := range ids {
		ours, there := rows[id]
		for _, record := range byID[id] {
			if !there {
				r.RowGone++
				continue
			}
			parts := compare(record, ours.Expected)
			if len(parts) == 0 {
				r.Same++
				continue
			}
			if r.Different++; len(r.Differences) < mostDifferences {
				r.Differences = append(r.Differences, Difference{record.Topic, record.Partition, record.Offset, id, parts, ours.note})
			}
		}
	}
	r.Verdict, r.Says = judgeRecords(r, missing)
	return r
}

func judgeRecords(r Records, missing []string) (debezium.Verdict, string) {
	var also string
	if len(missing) > 0 {
		also = "; these topics are not there: " + strings.Join(missing, ", ")
	}
	if r.RowGone > 0 {
		also += fmt.Sprintf("; %d records have no row any more and cannot be compared", r.RowGone)
	}
	if r.WithoutID > 0 {
		also += fmt.Sprintf("; %d records have no header id of an event and are others'", r.WithoutID)
	}
	switch {
	case r.Different > 0:
		return debezium.Differs, fmt.Sprintf("of %d records %d are not as Postrider would send them%s", r.Same+r.Different, r.Different, also)
	case r.Same == 0:
		return debezium.NotLookedAt, "no record could be compared" + also
	}
	return debezium.Same, fmt.Sprintf("%d records are, byte by byte, as Postrider would send them%s", r.Same, also)
}

// header is a header of a record, empty where there is none.
func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// expectedRow is what would be sent for a row, and a note where the encoder has one.
type expectedRow struct {
	Expected
	note string
}
