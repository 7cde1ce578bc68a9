package adopt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/debezium"
)

// FromConnector is the definition that does what a connector does with the columns of a table; has says which there are.
func FromConnector(from debezium.Connector, has func(column string) bool) Definition {
	r := from.Router
	d := Definition{ID: r.ID, IDHeader: "id", Key: r.Key, Payload: r.Payload, Timestamp: r.Timestamp,
		Route: &Route{Field: r.RouteBy, Regex: r.Regex, Replacement: r.Replacement}}
	if has(r.TracingField) {
		d.Tracing = r.TracingField
	}
	d.addFields(slices.DeleteFunc(slices.Clone(r.Fields), func(f debezium.Field) bool { return r.IgnoreMissing && !has(f.Column) }))
	return d
}

// Event is what the trigger would put into outbox_event for a row.
type Event struct {
	Topic        string
	Key, Payload []byte // nil is null
	// Headers are pairs of a name and a value; a value may be null.
	Headers [][2]*string
	// Partition and Timestamp are nil where the row has none.
	Partition *int32
	Timestamp *time.Time
}

// Preview returns the events that the trigger of a definition would make of rows, by the text of their column ID, for the ids
// that are there. It needs the right to read the table, and neither the schema postrider nor a trigger.
func Preview(ctx context.Context, db querier, table string, d Definition, ids []string) (map[string]Event, error) {
	t := &Table{kind: "r"}
	err := db.QueryRow(ctx, `select c.oid, c.relname, format('%I.%I', n.nspname, c.relname)
		from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass($1)`, table).Scan(&t.oid, &t.base, &t.Name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, noTable(ctx, db, table)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the table %s: %w", table, err)
	}
	if err := t.readColumns(ctx, db); err != nil {
		return nil, err
	}
	if d.ID == "" {
		return nil, errors.New("without a column with the identity of an event its row cannot be found")
	}
	values, err := t.values(d, "")
	if err != nil {
		return nil, err
	}
	expressions := map[string]string{"key": "null::bytea", "headers": "null::jsonb", "partition": "null::integer", "timestamp": "null::timestamptz"}
	for _, v := range values {
		expressions[v.column] = v.sql
	}
	id, _ := t.column(d.ID)
	rows, err := db.Query(ctx, fmt.Sprintf(`select r.%s::text, %s, %s, %s, %s::text, %s, %s from %s as r where r.%s = any($1::text[]::%s[])`, quote(d.ID),
		expressions["topic"], expressions["key"], expressions["payload"], expressions["headers"], expressions["partition"], expressions["timestamp"], t.Name, quote(d.ID), id.typ), ids)
	if err != nil {
		return nil, err
	}
	events := map[string]Event{}
	var of string
	var topic, headers *string
	var e Event
	_, err = pgx.ForEachRow(rows, []any{&of, &topic, &e.Key, &e.Payload, &headers, &e.Partition, &e.Timestamp}, func() error {
		e.Topic, e.Headers = "", nil
		if topic != nil {
			e.Topic = *topic
		}
		if headers != nil {
			if err := json.NewDecoder(strings.NewReader(*headers)).Decode(&e.Headers); err != nil {
				return fmt.Errorf("the headers of the row %s: %w", of, err)
			}
		}
		events[of] = e
		return nil
	})
	return events, err
}
