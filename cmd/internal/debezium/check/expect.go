package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/cmd/internal/debezium"
	"github.com/postrider/postrider/internal/wire"
	"github.com/postrider/postrider/message"
)

// formats are the converters of a rule.
var formats = map[debezium.Format]wire.Converter{debezium.FormatString: wire.String, debezium.FormatJSON: wire.JSON, debezium.FormatJSONSchemas: wire.JSONWithSchemas, debezium.FormatBytes: wire.Bytes}

// rule is what wire says for a topic, whose rows have value in the column of the route.
func (e *examination) rule(value string) (wire.Rule, error) {
	c := e.connector
	rule := wire.Rule{Key: formats[c.Key.Format], Value: formats[c.Value.Format], Expand: c.Router.Expand, Tombstones: c.Router.TombstoneOnEmpty}
	switch {
	case c.Key.Format == debezium.FormatUnknown || c.Value.Format == debezium.FormatUnknown:
		return rule, errors.New("a converter is the worker's default, which is not known")
	case rule.Key == "" || rule.Value == "":
		return rule, errors.New("a converter is refused")
	}
	if c.Router.Expand && c.Router.KeepNulls {
		rule.NullFields = wire.OptionalBytes
	}
	if c.Router.Expand && c.Router.KeepEmptyArrays {
		rule.EmptyArrays = wire.OptionalString
	}
	var err error
	if rule.KeyType, err = e.typeOf(c.Router.Key); err != nil {
		return rule, err
	}
	if rule.ValueType, err = e.typeOf(c.Router.Payload); err != nil {
		return rule, err
	}
	for _, f := range c.Router.Fields {
		if _, there := e.column(f.Column); f.Placement != debezium.PlaceEnvelope || !there {
			continue
		}
		t, err := e.typeOf(f.Column)
		if err != nil {
			return rule, err
		}
		rule.Envelope = append(rule.Envelope, wire.Field{Name: f.Alias, Type: t})
	}
	if len(rule.Envelope) > 0 && rule.Value == wire.JSONWithSchemas {
		rule.SchemaName = fmt.Sprintf("%s.%s.%s.%s.Value", c.TopicPrefix, e.table.schema, e.table.name, value)
	}
	return rule, rule.Validate()
}

// lookAtRules says whether our settings have the rules that make the connector's records.
func (e *examination) lookAtRules(context.Context) error {
	if len(e.columns) == 0 || len(e.topics) == 0 {
		return nil // there is nothing to compare
	}
	var without []string
	for _, topic := range e.topics {
		needed, err := e.rule(e.routes[topic])
		if err != nil {
			return nil // it is refused as a knob, or as a column
		}
		if has := e.Settings.TopicSettings(topic).Wire; has == nil || has.String() != needed.String() {
			without = append(without, topic)
		}
	}
	if len(without) > 0 {
		e.differs("wire", "put the rules at the end of this report into the settings", "the settings have no rule that makes the connector's records, or another one, for %s", strings.Join(without, ", "))
		return nil
	}
	e.same("wire", "the settings have the rules that make the connector's records")
	return nil
}

// typeOf is the type of a column in a rule.
func (e *examination) typeOf(name string) (wire.Type, error) {
	c, _ := e.column(name)
	text := c.wireType()
	if text == "" && c.kind == "e" {
		text = "string"
	}
	if text == "" {
		return wire.Type{}, fmt.Errorf("the column %s is of the type %s, which a rule does not have", name, c.typ)
	}
	if c.nullable {
		text += "?"
	}
	return wire.ParseType(text)
}

// expectation returns what makes the records that Postrider would send for rows, by the text of their ids.
func (e *examination) expectation() (func(context.Context, []string) (map[string]expectedRow, error), error) {
	if _, err := e.rule("x"); err != nil {
		return nil, err
	}
	return func(ctx context.Context, ids []string) (map[string]expectedRow, error) {
		name := pgx.Identifier{e.table.schema, e.table.name}.Sanitize()
		events, err := adopt.Preview(ctx, e.Database, name, adopt.FromConnector(e.connector, func(name string) bool { _, there := e.column(name); return there }), ids)
		if err != nil {
			return nil, err
		}
		rows := map[string]expectedRow{}
		for id, event := range events {
			rule, err := e.rule(e.routes[event.Topic])
			if err != nil {
				return nil, err
			}
			rows[id] = expected(rule, event)
		}
		return rows, nil
	}, nil
}

// expected is the record that the relay makes of an event by a rule.
func expected(rule wire.Rule, event adopt.Event) expectedRow {
	row := expectedRow{Expected: Expected{Topic: event.Topic, Partition: event.Partition, Timestamp: event.Timestamp}}
	var headers []message.Header
	for _, h := range event.Headers {
		if h[0] == nil {
			continue
		}
		header := message.Header{Name: *h[0]}
		if h[1] != nil {
			header.Value = []byte(*h[1])
		}
		headers = append(headers, header)
	}
	record, err := rule.Record(event.Key, event.Payload, headers)
	if err != nil {
		row.note = "Postrider would not send it: " + err.Error()
		return row
	}
	row.Key, row.Value, row.note = record.Key, record.Value, record.Differs
	for _, h := range record.Headers {
		row.Headers = append(row.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
	}
	return row
}
