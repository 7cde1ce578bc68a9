package debezium

import "strings"

// routerRules are the 16 settings of the event router, and the settings of tracing.
var routerRules = []rule{
	{name: "table.field.event.id", standard: "id", always: true, judge: says("the column is the header id, and the id of our event where it is a UUID")},
	{name: "table.field.event.key", standard: "aggregateid", always: true, judge: says("the column is the record's key")},
	{name: "table.field.event.type", standard: "type", always: true, judge: says("the router does not read it; a type is sent where table.fields.additional.placement names its column")},
	{name: "table.field.event.payload", standard: "payload", always: true, judge: says("the column is the record's value")},
	{name: "table.field.event.timestamp", always: true, judge: func(_ subject, value string) opinion {
		if value == "" {
			return same("the record has the time at which it is sent, as Debezium's has the time at which it read the row")
		}
		return same("the column is the record's timestamp")
	}},
	{name: "table.field.event.schema.version", always: true, judge: func(s subject, value string) opinion {
		switch {
		case value == "":
			return same("values have no version of a schema")
		case !s.Router.Enveloped() || s.Value.Format != FormatJSONSchemas:
			return same("the version is in no record: it counts where the value has an envelope and its schema is sent")
		}
		return refused("take it out, and let consumers read the version from a header (table.fields.additional.placement)", "the schema in the value has a version from a column")
	}},
	{name: "table.fields.additional.placement", always: true, judge: judgeFields},
	{name: "table.field.additional.missing", standard: "error", always: true, judge: func(_ subject, value string) opinion {
		if strings.EqualFold(value, "ignore") {
			return same("columns that the table does not have are left out")
		}
		return same("a column that the table does not have is refused when the table is adopted, and stops the connector")
	}},
	{name: "table.op.invalid.behavior", standard: "warn", always: true, judge: func(_ subject, value string) opinion {
		if strings.EqualFold(value, "fatal") {
			return differs("do not update rows of the outbox", "an update of a row stops the connector; here it does nothing")
		}
		return same("an update of a row sends nothing")
	}},
	{name: "table.expand.json.payload", standard: "false", always: true, judge: func(s subject, value string) opinion {
		switch {
		case !strings.EqualFold(value, "true"):
			return same("the payload is sent as the text that it is")
		case s.Value.Format == FormatJSON, s.Value.Format == FormatJSONSchemas:
			return same("the payload is sent as JSON; where Debezium's expansion fails or loses digits, the JSON is sent as it is (the comparison of records shows it)")
		case s.Value.Format == FormatUnknown:
			return same("what the payload becomes depends on value.converter")
		}
		return refused("set it to false, or value.converter to JsonConverter", "without JsonConverter an expanded payload is sent as Java prints it: Struct{…}")
	}},
	{name: "table.json.payload.null.behavior", standard: "ignore", always: true, judge: func(s subject, value string) opinion {
		switch {
		case !s.Router.Expand:
			return same("it counts where the payload is expanded alone")
		case strings.EqualFold(value, "optional_bytes"):
			return same("members that are null are sent")
		}
		return same("members that are null are left out")
	}},
	{name: "table.json.payload.empty.array.behavior", standard: "ignore", always: true, judge: func(s subject, value string) opinion {
		switch {
		case !s.Router.Expand:
			return same("it counts where the payload is expanded alone")
		case strings.EqualFold(value, "optional_string"):
			return same("members that are empty arrays are sent")
		}
		return same("members that are empty arrays are left out")
	}},
	{name: "route.by.field", standard: "aggregatetype", always: true, judge: says("the topic follows from the column")},
	{name: "route.topic.regex", standard: "(?<routedByValue>.*)", always: true, judge: judgeRoute},
	{name: "route.topic.replacement", standard: "outbox.event.${routedByValue}", always: true, judge: judgeRoute},
	{name: "route.tombstone.on.empty.payload", standard: "false", always: true, judge: func(_ subject, value string) opinion {
		if strings.EqualFold(value, "true") {
			return same("a payload that is null or blank is a record without value")
		}
		return same("a payload that is null or blank is sent as the converter makes it")
	}},
	{name: "tracing.span.context.field", standard: "tracingspancontext", always: true, judge: says("a traceparent in the column becomes the header; it is that of the writer, where Debezium with OpenTelemetry sends a span of its own below it")},
	{name: "tracing.operation.name", standard: "debezium-read", always: true, judge: says("no record has it; our own spans have our names")},
	{name: "tracing.with.context.field.only", standard: "false", always: true, judge: says("rows without a tracing context are sent without one")},
	{name: "table.field.event.payload.id", judge: func(subject, string) opinion {
		return refused("update the connector: versions from 2 on do not know it", "a version of the router before 2 takes the key from it where the key is null")
	}},
}

func judgeFields(s subject, value string) opinion {
	if value == "" {
		return same("id is the only header, and no column is in an envelope")
	}
	partitions := 0
	for _, f := range s.Router.Fields {
		switch {
		case f.Placement == PlacePartition:
			if partitions++; partitions > 1 {
				return refused("name one column", "several columns give the partition")
			}
		case f.Placement == PlaceHeader && strings.HasPrefix(f.Alias, "postrider-"):
			return refused("give it another alias", "names of headers that begin with postrider- are our own: %s", f.Alias)
		case f.Placement == PlaceEnvelope && s.Value.Format != FormatJSON && s.Value.Format != FormatJSONSchemas && s.Value.Format != FormatUnknown:
			return refused("set value.converter to JsonConverter", "without JsonConverter an envelope is sent as Java prints it: Struct{…}")
		}
	}
	return same("columns become headers, members of the envelope, or the partition, in this order")
}

func judgeRoute(s subject, _ string) opinion {
	if _, _, err := PostgresRoute(s.Router.Regex, s.Router.Replacement); err != nil {
		return refused("write it without what PostgreSQL reads otherwise (alternatives, look-ahead, look-behind, back references, lazy and possessive quantifiers), "+
			"or leave --connector out of postrider debezium shadow, and give the columns and --topic-sql", "%v", err)
	}
	return same("the topic is made of the column as the router makes it; a value that the regular expression does not match is the topic itself")
}
