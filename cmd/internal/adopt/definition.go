// Package adopt forwards the rows of an outbox table that another program made into outbox_event, by a trigger, and moves
// such a table from Debezium's connector to Postrider and back, without a gap.
package adopt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Definition says which columns of a table become what of an event. Columns are names as PostgreSQL has them, unquoted.
type Definition struct {
	// ID is the column with the event's identity. A value of the type uuid becomes the event id. Of any other value an
	// event id is derived. Empty draws a new event id for each row.
	ID string `json:"id,omitempty"`
	// IDHeader is the header that has the value of ID as text. Empty sends none, unless the id is no UUID: it is then
	// sent as the header id, so that it is not lost.
	IDHeader string `json:"id_header,omitempty"`
	// Topic is the topic of every row.
	Topic string `json:"topic,omitempty"`
	// TopicSQL is an SQL expression over the row that says its topic.
	TopicSQL string `json:"topic_sql,omitempty"`
	// Route says the topic as Debezium's event router does. Exactly one of Topic, TopicSQL and Route is set.
	Route *Route `json:"route,omitempty"`
	// Key is the column with the key, and KeySQL an SQL expression for it. Without either the events have no key.
	Key    string `json:"key,omitempty"`
	KeySQL string `json:"key_sql,omitempty"`
	// Payload is the column with the payload: bytes of a bytea, otherwise its text in UTF-8.
	Payload string `json:"payload"`
	// Headers are columns that become headers, in this order, behind the header of the id.
	Headers []Header `json:"headers,omitempty"`
	// Envelope are columns that a wire rule puts into the envelope of the payload; see docs/design/wire.md.
	Envelope []Header `json:"envelope,omitempty"`
	// Tracing is the column with a serialised java.util.Properties that a wire rule makes traceparent of.
	Tracing string `json:"tracing,omitempty"`
	// HeadersJSON is a column with a JSON object whose members become headers, behind Headers.
	HeadersJSON string `json:"headers_json,omitempty"`
	// Partition is an integer column with the partition; null leaves it to the key.
	Partition string `json:"partition,omitempty"`
	// Timestamp is the column with the record's time: timestamptz, timestamp in UTC, or milliseconds since 1970.
	Timestamp string `json:"timestamp,omitempty"`
	// Where is an SQL condition over the row: other rows are not forwarded.
	Where string `json:"where,omitempty"`
}

// Header is a column that becomes a header, its value as text.
type Header struct {
	Column string `json:"column"`
	Name   string `json:"name"`
}

// Route is the routing of Debezium's event router: the topic is the text of a column, in which the regular expression, if it
// fits the whole, is replaced.
type Route struct {
	// Field is route.by.field.
	Field string `json:"field"`
	// Regex is route.topic.regex, and Replacement route.topic.replacement, as Java has them.
	Regex       string `json:"regex"`
	Replacement string `json:"replacement"`
}

// check refuses a definition that is incomplete or says one thing twice.
func (d Definition) check() error {
	topics := 0
	for _, given := range []bool{d.Topic != "", d.TopicSQL != "", d.Route != nil} {
		if given {
			topics++
		}
	}
	var wrong []error
	switch {
	case topics == 0:
		wrong = append(wrong, errors.New("nothing says the topic: give --topic, --topic-sql or --route-field"))
	case topics > 1:
		wrong = append(wrong, errors.New("the topic is said more than once: give one of --topic, --topic-sql and --route-field"))
	}
	if d.Payload == "" {
		wrong = append(wrong, errors.New("no column has the payload: give --payload"))
	}
	if d.Key != "" && d.KeySQL != "" {
		wrong = append(wrong, errors.New("the key is said twice: give --key or --key-sql"))
	}
	var names []string
	if d.IDHeader != "" {
		names = append(names, d.IDHeader)
	}
	for _, h := range d.Headers {
		if strings.HasPrefix(strings.ToLower(h.Name), "postrider-") {
			wrong = append(wrong, fmt.Errorf("the header %q begins with postrider-, which is the relay's own: give it another name", h.Name))
		}
		if slices.Contains(names, h.Name) {
			wrong = append(wrong, fmt.Errorf("the header %q is there twice", h.Name))
		}
		names = append(names, h.Name)
	}
	return errors.Join(wrong...)
}

// columns are the columns that a definition names, each with the words for what it is.
func (d Definition) columns() [][2]string {
	all := [][2]string{{d.ID, "id"}, {d.Key, "key"}, {d.Payload, "payload"}, {d.HeadersJSON, "headers"}, {d.Partition, "partition"}, {d.Timestamp, "timestamp"}, {d.Tracing, "tracing"}}
	if d.Route != nil {
		all = append(all, [2]string{d.Route.Field, "route"})
	}
	for _, h := range d.Headers {
		all = append(all, [2]string{h.Column, "header " + h.Name})
	}
	for _, f := range d.Envelope {
		all = append(all, [2]string{f.Column, "envelope's " + f.Name})
	}
	return slices.DeleteFunc(all, func(c [2]string) bool { return c[0] == "" })
}
