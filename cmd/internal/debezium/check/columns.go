package check

import (
	"context"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/debezium"
)

// column is a column of the outbox table.
type column struct {
	name, typ string
	kind      string // of the type; e is an enum
	modifier  int    // atttypmod
	nullable  bool
}

func (e *examination) column(name string) (column, bool) {
	for _, c := range e.columns {
		if c.name == name {
			return c, true
		}
	}
	return column{}, false
}

// canBe says whether a text, of a record that anyone may have written, can be a value of the column.
func (c column) canBe(text string) bool {
	bits := map[string]int{"smallint": 16, "integer": 32, "bigint": 64}[c.typ]
	switch {
	case c.typ == "uuid":
		_, err := uuid.Parse(text)
		return err == nil && len(text) == 36
	case bits > 0:
		_, err := strconv.ParseInt(text, 10, bits)
		return err == nil
	}
	return utf8.ValidString(text) && !strings.Contains(text, "\x00")
}

// wireType is the type of a column in a rule, without its ?, and empty where there is none. The types are those of
// docs/design/wire.md.
func (c column) wireType() string {
	switch c.typ {
	case "text", "character varying", "character", "citext":
		return "string"
	case "uuid":
		return "uuid"
	case "json", "jsonb":
		return "json"
	case "smallint":
		return "int16"
	case "integer":
		return "int32"
	case "bigint":
		return "int64"
	case "double precision":
		return "float64"
	case "boolean":
		return "boolean"
	case "bytea":
		return "bytes"
	}
	return ""
}

// asHeader reports whether a header has the column as text in one way whatever Debezium's settings are.
func (c column) asHeader() bool {
	switch c.typ {
	case "timestamp without time zone", "timestamp with time zone", "date":
		return true
	case "double precision":
		return false
	}
	return c.wireType() != "" || c.kind == "e"
}

// lookAtColumns is about the columns that the router reads, and their types.
func (e *examination) lookAtColumns(ctx context.Context) error {
	rows, err := e.Database.Query(ctx, columnsQuery, e.table.oid)
	if err == nil {
		e.columns, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) {
			return c, row.Scan(&c.name, &c.typ, &c.kind, &c.modifier, &c.nullable)
		})
	}
	if err != nil {
		return err
	}
	r := e.connector.Router
	have := true
	of := func(what, name string, fits func(c column) (why string)) {
		label := "column of the " + what
		c, ok := e.column(name)
		switch {
		case !ok && r.IgnoreMissing && strings.HasPrefix(what, "additional"):
			e.same(label, "%s is not there, and is left out", name)
		case !ok:
			have = false
			e.refuse(label, "see that the settings are those of this database's connector", "%s has no column %s", e.table, name)
		default:
			if why := fits(c); why != "" {
				e.refuse(label, "let the writer write a text, or take the column out of the settings", "%s is of the type %s: %s", name, c.typ, why)
			} else {
				e.same(label, "%s, %s", name, c.typ)
			}
		}
	}
	of("id", r.ID, func(c column) string {
		if c.wireType() == "" || c.typ == "double precision" || c.typ == "bytea" {
			return "it is no id that a header has as text"
		}
		return ""
	})
	of("key", r.Key, func(c column) string {
		switch {
		case c.wireType() == "" && c.kind != "e":
			return "what bytes a key of it has depends on Debezium's settings"
		case c.kind == "e" && e.connector.Key.Format == debezium.FormatJSONSchemas:
			return "its schema, which is sent with the key, has the enum's values"
		case c.typ == "bytea" && e.connector.Key.Format != debezium.FormatBytes:
			return "a key of bytes needs ByteArrayConverter"
		}
		return ""
	})
	of("payload", r.Payload, func(c column) string {
		bytes := e.connector.Value.Format == debezium.FormatBytes
		switch {
		case c.typ == "bytea" && e.connector.Value.Format == debezium.FormatString:
			return "StringConverter prints Java's name of the buffer; set value.converter to ByteArrayConverter at the connector"
		case c.typ != "bytea" && bytes:
			return "ByteArrayConverter takes bytes alone, and the connector's task would stop"
		case c.wireType() == "":
			return "what bytes a value of it has depends on Debezium's settings"
		}
		return ""
	})
	of("topic", r.RouteBy, func(c column) string {
		if c.wireType() != "string" && c.kind != "e" {
			return "the router takes a text, and stops the connector's task at anything else"
		}
		return ""
	})
	if r.Timestamp != "" {
		of("timestamp", r.Timestamp, func(c column) string {
			if c.typ != "timestamp without time zone" {
				return "the router takes a timestamp without time zone, and stops the connector's task at anything else"
			}
			return ""
		})
	}
	for _, f := range r.Fields {
		of("additional "+f.Placement+" "+f.Alias, f.Column, func(c column) string {
			switch {
			case f.Placement == debezium.PlacePartition && c.typ != "integer":
				return "the router takes an integer, and stops the connector's task at anything else"
			case f.Placement == debezium.PlaceHeader && !c.asHeader():
				return "what text a header of it has depends on Debezium's settings"
			case f.Placement == debezium.PlaceEnvelope && c.wireType() == "":
				return "what it is in an envelope depends on Debezium's settings"
			}
			return ""
		})
	}
	if !have {
		e.columns = nil
	}
	return nil
}
