package debezium

import "strings"

// needsWorker says what to do where the converter is the worker's.
const needsWorker = "give the worker's configuration (--worker FILE), or set it at the connector"

// converterRules are the settings of the three converters.
var converterRules = []rule{
	{name: "key.converter", always: true, judge: func(s subject, value string) opinion {
		switch s.Key.Format {
		case FormatString:
			return same("the key is the text of its column")
		case FormatJSON:
			return same("the key is a JSON value: a text in quotes")
		case FormatJSONSchemas:
			return same("the key is a JSON object of its schema and its value")
		case FormatUnknown:
			return differs(needsWorker, "the converter is the worker's default, which is not in this configuration")
		}
		return unknownConverter(value)
	}},
	{name: "key.converter.schemas.enable", judge: says("with key.converter")},
	{name: "value.converter", always: true, judge: func(s subject, value string) opinion {
		switch s.Value.Format {
		case FormatString:
			return same("the value is the text of the payload")
		case FormatJSON:
			if s.Router.Expand {
				return same("the value is the payload as JSON")
			}
			return same("the value is the payload as a JSON text: in quotes, escaped")
		case FormatJSONSchemas:
			return same("the value is a JSON object of the schema and the payload")
		case FormatBytes:
			return same("the value is the bytes of the payload")
		case FormatUnknown:
			return differs(needsWorker, "the converter is the worker's default, which is not in this configuration")
		}
		return unknownConverter(value)
	}},
	{name: "value.converter.schemas.enable", judge: says("with value.converter")},
	{name: "value.converter.delegate.converter.type", judge: says("it makes what is no bytes; an event's payload is bytes")},
	{name: "value.converter.delegate.converter.type.*", judge: says("with value.converter.delegate.converter.type")},
	{name: "header.converter", standard: "org.apache.kafka.connect.storage.SimpleHeaderConverter", always: true, judge: func(s subject, value string) opinion {
		switch s.Header.Format {
		case FormatSimple, FormatString:
			return same("headers are texts")
		}
		return refused("set header.converter to org.apache.kafka.connect.storage.SimpleHeaderConverter, which is Connect's default, if consumers can read texts",
			"headers of %s are no plain texts", shortClass(value))
	}},
	{name: "key.converter.*", judge: converterOption}, {name: "value.converter.*", judge: converterOption}, {name: "header.converter.*", judge: converterOption},
}

// converterOption is about options that say what JsonConverter prints: decimals and schemas, which few events have.
func converterOption(s subject, value string) opinion {
	switch option := s.name[strings.Index(s.name, ".converter.")+len(".converter."):]; {
	case option == "decimal.format" && strings.EqualFold(value, "NUMERIC"):
		return differs("compare records whose additional columns are numeric", "decimals are JSON numbers")
	case option == "replace.null.with.default" && !strings.EqualFold(value, "true"):
		return same("null stays null")
	case option == "schemas.cache.size", option == "decimal.format", option == "replace.null.with.default", option == "schemas.enable":
		return same("no record has it")
	}
	return opinion{verdict: NotLookedAt}
}

func unknownConverter(class string) opinion {
	switch short := shortClass(class); short {
	case "AvroConverter", "ProtobufConverter", "JsonSchemaConverter", "AWSKafkaAvroConverter", "ApicurioConverter", "ExtJsonConverter":
		return refused("let the writer put the bytes into the row (bytea, with ByteArrayConverter at the connector), or keep the connector",
			"%s registers schemas and puts their ids into the bytes", short)
	case "CloudEventsConverter":
		return refused("keep the connector, or let the writer make the CloudEvent", "CloudEventsConverter makes an envelope of its own")
	case "ByteArrayConverter", "BinaryDataConverter":
		return refused("set key.converter to StringConverter", "a key that is a text cannot be converted by %s: the connector's task would stop", short)
	default:
		return refused("set String, Json or ByteArray", "%s is none of the converters whose bytes are known", short)
	}
}
