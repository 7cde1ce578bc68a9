package adopt

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// TriggerName is the name of the trigger on an adopted table.
const TriggerName = "postrider_forward"

// Mode says what becomes of the rows of an adopted table; see outbox_forward.mode.
type Mode string

const (
	// ModeForward makes events of them.
	ModeForward Mode = "forward"
	// ModeShadow makes events of topics with a prefix.
	ModeShadow Mode = "shadow"
	// ModeHeld keeps them until a cutover goes on.
	ModeHeld Mode = "held"
	// ModeOff leaves them to the connector: the trigger is disabled.
	ModeOff Mode = "off"
)

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// functionName is the name of the trigger's function. The digest tells tables with similar names apart.
func (t *Table) functionName() string {
	sum := sha256.Sum256([]byte(t.Name))
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(t.base), "_"), "_")
	return "outbox_forward_" + name[:min(len(name), 30)] + "_" + hex.EncodeToString(sum[:4])
}

// value is a column of outbox_event with the expression that it gets.
type value struct{ column, sql string }

// values are the columns of an event, as expressions over the row r.
func (t *Table) values(d Definition, prefix string) ([]value, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := t.has(d); err != nil {
		return nil, err
	}
	topic, err := t.topic(d)
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		topic = literalSQL(prefix) + " || " + topic
	}
	all := []value{{"event_id", t.eventID(d)}, {"topic", topic}}
	switch {
	case d.Key != "":
		all = append(all, value{"key", t.bytes(d.Key)})
	case d.KeySQL != "":
		all = append(all, value{"key", "convert_to((" + d.KeySQL + ")::text, 'UTF8')"})
	}
	all = append(all, value{"payload", t.bytes(d.Payload)})
	if headers := t.headers(d); headers != "" {
		all = append(all, value{"headers", headers})
	}
	if d.Partition != "" {
		all = append(all, value{"partition", "r." + quote(d.Partition) + "::integer"})
	}
	if d.Timestamp != "" {
		at, _ := t.column(d.Timestamp)
		sql := "r." + quote(d.Timestamp)
		switch at.typ {
		case "timestamp without time zone":
			sql += " at time zone 'UTC'"
		case "bigint":
			sql = "to_timestamp(" + sql + " / 1000.0)"
		}
		all = append(all, value{"timestamp", sql})
	}
	return all, nil
}

// has refuses columns that the table does not have, or that have a type for something else.
func (t *Table) has(d Definition) error {
	var wrong []error
	for _, c := range d.columns() {
		if _, ok := t.column(c[0]); !ok {
			wrong = append(wrong, fmt.Errorf("%s has no column %q for the %s; it has %s", t.Name, c[0], c[1], strings.Join(t.columnNames(), ", ")))
		}
	}
	of := func(name, what string, types ...string) {
		if c, ok := t.column(name); ok && !slices.Contains(types, c.typ) {
			wrong = append(wrong, fmt.Errorf("the column %q of %s is of the type %s, and the %s needs %s", name, t.Name, c.typ, what, strings.Join(types, ", ")))
		}
	}
	of(d.Partition, "partition", "integer", "smallint", "bigint")
	of(d.Timestamp, "timestamp", "timestamp with time zone", "timestamp without time zone", "bigint")
	of(d.HeadersJSON, "headers", "jsonb", "json", "text", "character varying")
	for _, h := range d.Headers {
		c, ok := t.column(h.Column)
		if _, fixed := t.header(h.Column); ok && !fixed && d.Route != nil {
			wrong = append(wrong, fmt.Errorf("the column %q of %s is of the type %s, whose text in a header depends on the connector's settings: leave it out, or give the topic with --topic-sql to have PostgreSQL's text", h.Column, t.Name, c.typ))
		}
	}
	return errors.Join(wrong...)
}

func (t *Table) columnNames() []string {
	var names []string
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	return names
}

// bytes is a column as bytes: those of a bytea, or its text in UTF-8.
func (t *Table) bytes(name string) string {
	if c, _ := t.column(name); c.typ == "bytea" {
		return "r." + quote(name)
	}
	return "convert_to(" + t.text(name) + ", 'UTF8')"
}

// text is a column as text. Bytes are in base64, as Kafka Connect has them in a header.
func (t *Table) text(name string) string {
	switch c, _ := t.column(name); c.typ {
	case "text", "character varying":
		return "r." + quote(name)
	case "bytea":
		return `replace(encode(r.` + quote(name) + `, 'base64'), E'\n', '')`
	}
	return "r." + quote(name) + "::text"
}

// header is a column as the text of a header, as Kafka Connect writes it of the type that Debezium gives it: see
// docs/design/wire.md. It reports false for a type whose text depends on settings of the connector.
func (t *Table) header(name string) (sql string, fixed bool) {
	c, _ := t.column(name)
	at := "r." + quote(name)
	switch c.typ {
	case "timestamp without time zone":
		scale := "1000000"
		if c.digits >= 0 && c.digits <= 3 {
			scale = "1000"
		}
		return "(extract(epoch from " + at + ") * " + scale + ")::bigint::text", true
	case "timestamp with time zone":
		return `regexp_replace(to_char(` + at + ` at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), E'\\.?0+$', '') || 'Z'`, true
	case "date":
		return "(" + at + " - date '1970-01-01')::text", true
	case "numeric", "real", "double precision", "interval", "money", "time without time zone", "time with time zone":
		return at + "::text", false
	}
	return t.text(name), !strings.HasSuffix(c.typ, "[]")
}

// envelope is a JSON object of columns, as text.
func (t *Table) envelope(fields []Header) string {
	var members []string
	for _, f := range fields {
		value := "r." + quote(f.Column)
		if c, _ := t.column(f.Column); c.typ == "bytea" {
			value = t.text(f.Column)
		}
		members = append(members, literalSQL(f.Name)+", "+value)
	}
	return "jsonb_build_object(" + strings.Join(members, ", ") + ")::text"
}

// eventID is a UUID that is in the row, or one that follows from the id of the row: the same table and id give the same one.
// It is of the version 8, so that it is not taken for one that begins with a time.
func (t *Table) eventID(d Definition) string {
	if d.ID == "" {
		return "postrider.outbox_event_id()"
	}
	if c, _ := t.column(d.ID); c.typ == "uuid" {
		return "r." + quote(d.ID)
	}
	return "overlay(overlay(left(encode(sha256(convert_to(" + literalSQL(t.Name+"/") + " || " + t.text(d.ID) + ", 'UTF8')), 'hex'), 32) placing '8' from 13) placing '8' from 17)::uuid"
}

func (t *Table) topic(d Definition) (string, error) {
	switch {
	case d.Topic != "":
		return literalSQL(d.Topic), nil
	case d.TopicSQL != "":
		return "(" + d.TopicSQL + ")::text", nil
	}
	return d.Route.SQL(t.text(d.Route.Field))
}

// headers is an array of pairs, so that they keep their order.
func (t *Table) headers(d Definition) string {
	var pairs []string
	pair := func(name, value string) {
		pairs = append(pairs, "jsonb_build_array("+literalSQL(name)+", "+value+")")
	}
	if id, ok := t.column(d.ID); ok {
		switch {
		case d.IDHeader != "":
			pair(d.IDHeader, t.text(d.ID))
		case id.typ != "uuid":
			pair("id", t.text(d.ID))
		}
	}
	for _, h := range d.Headers {
		text, _ := t.header(h.Column)
		pair(h.Name, text)
	}
	if len(d.Envelope) > 0 {
		pair("wire-envelope", t.envelope(d.Envelope))
	}
	if d.Tracing != "" {
		pair("wire-tracing", t.text(d.Tracing))
	}
	var sql string
	if len(pairs) > 0 {
		sql = "jsonb_build_array(" + strings.Join(pairs, ", ") + ")"
	}
	if d.HeadersJSON == "" {
		return sql
	}
	// What is no text becomes the text of its JSON.
	members := "coalesce((select jsonb_agg(jsonb_build_array(h.key, h.value) order by h.at) from jsonb_each_text(r." + quote(d.HeadersJSON) +
		"::jsonb) with ordinality as h(key, value, at)), '[]')"
	if sql == "" {
		return members
	}
	return sql + " || " + members
}

// body is the source of the trigger's function.
func (t *Table) body(d Definition, mode Mode, prefix string) (string, error) {
	if t.rowwise() {
		return t.source(d, mode, prefix, "(select new.*)", "null")
	}
	return t.source(d, mode, prefix, "new_rows", "null")
}

// source is the source of a trigger's function that writes the events of rows and returns a row.
func (t *Table) source(d Definition, mode Mode, prefix, rows, returned string) (string, error) {
	values, err := t.values(d, prefix)
	if err != nil {
		return "", err
	}
	target := "postrider.outbox_event"
	if mode == ModeHeld {
		target = "postrider.outbox_held_event"
		values = append([]value{{"source_table", literalSQL(t.Name)}}, values...)
	}
	var columns, expressions []string
	for _, v := range values {
		columns, expressions = append(columns, v.column), append(expressions, v.sql)
	}
	where := ""
	if d.Where != "" {
		where = "\n    where " + d.Where
	}
	return fmt.Sprintf(`
#variable_conflict use_column
begin
    insert into %s (%s)
    select %s
    from %s as r%s;
    return %s;
end
`, target, strings.Join(columns, ", "), strings.Join(expressions, ",\n           "), rows, where, returned), nil
}

// function is the statement that makes the trigger's function, and what belongs to it.
func (t *Table) function(d Definition, mode Mode, prefix string) (string, error) {
	body, err := t.body(d, mode, prefix)
	if err != nil {
		return "", err
	}
	return t.functionOf(t.functionName(), body), nil
}

// functionOf is the statement that makes a trigger's function of its source.
func (t *Table) functionOf(name, body string) string {
	tag := "$forward$"
	for strings.Contains(body, tag) {
		tag = "$" + tag[1:len(tag)-1] + "x$"
	}
	name = "postrider." + quote(name)
	return fmt.Sprintf(`create or replace function %s() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as %s%s%s;
alter function %s() owner to %s;
comment on function %s() is %s;
revoke all on function %s() from public;
`, name, tag, body, tag, name, quote(t.owner), name, literalSQL("Forwards the rows that are inserted into "+t.Name+". Made by postrider adopt."), name)
}

// arm is the SQL that makes function and trigger do what a mode says, on the view too where one has the name of the table.
func (t *Table) arm(d Definition, mode Mode, prefix string) (string, error) {
	function, err := t.function(d, mode, prefix)
	if err != nil {
		return "", err
	}
	sql := fmt.Sprintf("%s%salter table %s enable trigger %s;\n", function, t.trigger(), t.self(), TriggerName)
	if t.kept != "" {
		function, err := t.functionOfView(d, mode)
		if err != nil {
			return "", err
		}
		sql += function + t.triggerOfView()
	}
	return sql, nil
}

// self is the table itself, also where a view has its name.
func (t *Table) self() string { return cmp.Or(t.kept, t.Name) }

// trigger is the statement that makes the trigger.
func (t *Table) trigger() string {
	how := "referencing new table as new_rows for each statement"
	if t.rowwise() {
		how = "for each row"
	}
	return fmt.Sprintf(`create or replace trigger %s after insert on %s %s
    execute function postrider.%s();
comment on trigger %s on %s is 'Forwards inserted rows into postrider.outbox_event. Made by postrider adopt.';
`, TriggerName, t.self(), how, quote(t.functionName()), TriggerName, t.self())
}
