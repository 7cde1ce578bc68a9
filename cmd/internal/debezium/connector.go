package debezium

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Class and RouterClass are what Postrider can take the place of.
const (
	Class       = "io.debezium.connector.postgresql.PostgresConnector"
	RouterClass = "io.debezium.transforms.outbox.EventRouter"
)

// Connector is what the settings of a connector say, with Debezium's defaults in place of what is not set. It has no password.
type Connector struct {
	Name string
	// Host, Port, Database and User are where the connector logs in. Values with ${…} are placeholders that Connect fills in.
	Host, Port, Database, User string
	// TopicPrefix begins the names of the topics of tables and heartbeats; events do not go there.
	TopicPrefix string
	// Slot, Publication and Autocreate (publication.autocreate.mode) are about logical replication. Plugin is pgoutput where a
	// publication counts.
	Slot, Publication, Autocreate, Plugin string
	// Tables are the regular expressions of table.include.list, each for a whole SCHEMA.TABLE.
	Tables []string
	// Heartbeats says that heartbeat.interval.ms is above 0.
	Heartbeats bool
	// ContextHeaders says that each record begins with headers whose names begin with ContextHeader.
	ContextHeaders bool
	// Alias is the name of the router among the transforms: its settings begin with transforms.ALIAS. in the configuration.
	Alias  string
	Router Router
	// Key, Value and Header are the converters.
	Key, Value, Header Converter
}

// ContextHeader begins the names of headers that Debezium adds from version 3.2 on, unless extended.headers.enabled is false.
const ContextHeader = "__debezium.context."

// Router are the settings of the event router.
type Router struct {
	// ID, Key, Payload and RouteBy are columns of the outbox table.
	ID, Key, Payload, RouteBy string
	// Timestamp is the column of the record's timestamp, empty where that is Debezium's clock; SchemaVersion is the column of
	// the version of the value's schema, empty for none.
	Timestamp, SchemaVersion string
	// Fields are the additional columns, in the order of the headers.
	Fields []Field
	// IgnoreMissing leaves out additional columns that the table does not have.
	IgnoreMissing bool
	// Expand sends a payload of JSON text as JSON. KeepNulls and KeepEmptyArrays keep what expansion drops otherwise.
	Expand, KeepNulls, KeepEmptyArrays bool
	// Regex must match the value of RouteBy as a whole, and Replacement is the topic then; both are Java's.
	Regex, Replacement string
	// TombstoneOnEmpty sends a record without value for a payload that is null or blank.
	TombstoneOnEmpty bool
	// TracingField is the column of the tracing context.
	TracingField string
}

// The placements of additional columns.
const (
	PlaceHeader    = "header"
	PlaceEnvelope  = "envelope"
	PlacePartition = "partition"
)

// Field is an additional column, and where the router puts it, under which name.
type Field struct{ Column, Placement, Alias string }

// Format is the bytes that a converter makes.
type Format string

const (
	// FormatString is the text as it is.
	FormatString Format = "string"
	// FormatJSON is a JSON value.
	FormatJSON Format = "json"
	// FormatJSONSchemas is a JSON object of a schema and a value.
	FormatJSONSchemas Format = "json with schemas"
	// FormatBytes is bytes as they are.
	FormatBytes Format = "bytes"
	// FormatSimple is that of headers: the text of a text, a number or a truth value.
	FormatSimple Format = "simple"
	// FormatUnknown is the converter of the worker, which the connector's configuration does not have.
	FormatUnknown Format = ""
	// FormatOther is that of any other converter.
	FormatOther Format = "other"
)

// Converter makes bytes of keys, values or headers.
type Converter struct {
	Class  string
	Format Format
}

// get is the value of a setting, or its default.
func (p Properties) get(name, standard string) string {
	if v := strings.TrimSpace(p[name]); v != "" {
		return v
	}
	return standard
}

func (p Properties) is(name string, standard bool) bool {
	return strings.EqualFold(p.get(name, strconv.FormatBool(standard)), "true")
}

// Read returns what the settings say. An error is about settings that are no connector for PostgreSQL with one event router;
// knobs that cannot be kept are no error (Judge).
func (p Properties) Read() (Connector, error) {
	switch class := p.get("connector.class", ""); class {
	case Class, "PostgresConnector", "Postgres": // Connect takes short names, too
	case "":
		return Connector{}, errors.New("connector.class is missing: this is not the configuration of a connector")
	default:
		return Connector{}, fmt.Errorf("connector.class is %s; only %s can be taken over", class, Class)
	}
	alias, err := p.router()
	if err != nil {
		return Connector{}, err
	}
	c := Connector{
		Name: p["name"],
		Host: p.get("database.hostname", ""), Port: p.get("database.port", "5432"), Database: p.get("database.dbname", ""), User: p.get("database.user", ""),
		TopicPrefix: p.get("topic.prefix", p.get("database.server.name", "")),
		Slot:        p.get("slot.name", "debezium"), Publication: p.get("publication.name", "dbz_publication"),
		Autocreate: strings.ToLower(p.get("publication.autocreate.mode", "all_tables")), Plugin: strings.ToLower(p.get("plugin.name", "decoderbufs")),
		Tables: list(p["table.include.list"]), Heartbeats: p.get("heartbeat.interval.ms", "0") != "0",
		ContextHeaders: p.is("extended.headers.enabled", true), Alias: alias,
		Key: p.converter("key.converter"), Value: p.converter("value.converter"), Header: p.converter("header.converter"),
	}
	c.Router, err = p.readRouter("transforms." + alias + ".")
	return c, err
}

// router returns the name of the one event router among the transforms.
func (p Properties) router() (alias string, err error) {
	var aliases []string
	for _, name := range list(p["transforms"]) {
		if isRouter(p["transforms."+name+".type"]) {
			aliases = append(aliases, name)
		}
	}
	switch len(aliases) {
	case 0:
		return "", fmt.Errorf("there is no outbox event router among the transforms (transforms.NAME.type=%s): the connector sends changes of tables, and no events", RouterClass)
	case 1:
		return aliases[0], nil
	}
	return "", fmt.Errorf("there are several outbox event routers: %s; take over one table after the other, each with a connector of its own", strings.Join(aliases, ", "))
}

func isRouter(class string) bool {
	class = strings.TrimSpace(class)
	return class == RouterClass || class == "EventRouter"
}

func (p Properties) readRouter(prefix string) (Router, error) {
	// The knobs have the defaults.
	of := func(name string) string {
		return p.get(prefix+name, routerRules[slices.IndexFunc(routerRules, func(r rule) bool { return r.name == name })].standard)
	}
	is := func(name, value string) bool { return strings.EqualFold(of(name), value) }
	r := Router{
		ID: of("table.field.event.id"), Key: of("table.field.event.key"), Payload: of("table.field.event.payload"), RouteBy: of("route.by.field"),
		Timestamp: of("table.field.event.timestamp"), SchemaVersion: of("table.field.event.schema.version"),
		IgnoreMissing: is("table.field.additional.missing", "ignore"), Expand: is("table.expand.json.payload", "true"),
		KeepNulls: is("table.json.payload.null.behavior", "optional_bytes"), KeepEmptyArrays: is("table.json.payload.empty.array.behavior", "optional_string"),
		Regex: of("route.topic.regex"), Replacement: of("route.topic.replacement"), TombstoneOnEmpty: is("route.tombstone.on.empty.payload", "true"),
		TracingField: of("tracing.span.context.field"),
	}
	var err error
	if r.Fields, err = ParseFields(of("table.fields.additional.placement")); err != nil {
		err = fmt.Errorf("%stable.fields.additional.placement: %w", prefix, err)
	}
	return r, err
}

// ParseFields reads additional columns as table.fields.additional.placement has them.
func ParseFields(placement string) (fields []Field, err error) {
	for _, text := range list(placement) {
		parts := strings.Split(text, ":")
		if len(parts) < 2 || len(parts) > 3 || strings.TrimSpace(parts[0]) == "" {
			return nil, fmt.Errorf("%q must be COLUMN:PLACEMENT or COLUMN:PLACEMENT:ALIAS", text)
		}
		f := Field{Column: strings.TrimSpace(parts[0]), Placement: strings.ToLower(strings.TrimSpace(parts[1])), Alias: strings.TrimSpace(parts[len(parts)-1])}
		if len(parts) == 2 {
			f.Alias = f.Column
		}
		if f.Placement != PlaceHeader && f.Placement != PlaceEnvelope && f.Placement != PlacePartition {
			return nil, fmt.Errorf("%q puts %s into %q; the placement must be header, envelope or partition", text, f.Column, f.Placement)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// DefaultRouter returns what the router does where nothing is set.
func DefaultRouter() Router {
	r, _ := Properties{}.readRouter("") // no fields, no mistakes
	return r
}

// Enveloped reports whether an additional column makes the value an object with the payload in it.
func (r Router) Enveloped() bool {
	for _, f := range r.Fields {
		if f.Placement == PlaceEnvelope {
			return true
		}
	}
	return false
}

// converter reads one converter. JsonConverter has schemas unless it is told not to.
func (p Properties) converter(name string) Converter {
	class := p.get(name, "")
	c := Converter{Class: class, Format: FormatOther}
	short := class[strings.LastIndex(class, ".")+1:]
	switch short {
	case "":
		c.Format = FormatUnknown
		if name == "header.converter" {
			c = Converter{Class: "org.apache.kafka.connect.storage.SimpleHeaderConverter", Format: FormatSimple}
		}
	case "StringConverter":
		c.Format = FormatString
	case "SimpleHeaderConverter":
		c.Format = FormatSimple
	case "JsonConverter":
		c.Format = FormatJSON
		if p.is(name+".schemas.enable", true) {
			c.Format = FormatJSONSchemas
		}
	case "ByteArrayConverter":
		c.Format = FormatBytes
	case "BinaryDataConverter":
		// It gives what is no bytes to its delegate.
		c.Format = FormatBytes
	}
	return c
}
