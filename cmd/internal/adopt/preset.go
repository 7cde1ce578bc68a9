package adopt

import (
	"fmt"
	"strings"
)

// Presets are the outboxes whose tables are known, in the order in which help names them.
var Presets = []string{"debezium", "watermill", "masstransit", "modulith"}

// Preset returns what the columns of a known outbox are. table is the name of the table without its schema, which says the
// topic where the outbox has a table for each.
func Preset(name, table string) (Definition, error) {
	switch name {
	case "":
		return Definition{}, nil
	case "debezium":
		return Definition{ID: "id", IDHeader: "id", Key: "aggregateid", Payload: "payload",
			Route: &Route{Field: DefaultRouteField, Regex: DefaultRouteRegex, Replacement: DefaultRouteReplacement}}, nil
	case "watermill":
		d := Definition{ID: "uuid", IDHeader: "_watermill_message_uuid", Payload: "payload", HeadersJSON: "metadata"}
		d.Topic, _ = strings.CutPrefix(table, "watermill_")
		return d, nil
	case "masstransit":
		return Definition{ID: "MessageId", IDHeader: "MessageId", Payload: "Body",
			Headers: []Header{{"ContentType", "Content-Type"}, {"MessageType", "MessageType"}}, HeadersJSON: "Headers"}, nil
	case "modulith":
		// The publication has a row for each listener of an event. The externalizer is the one that sends events elsewhere.
		return Definition{ID: "id", IDHeader: "id", Payload: "serialized_event", Headers: []Header{{"event_type", "event_type"}},
			Where: `r.listener_id like 'org.springframework.modulith.events.support.DelegatingEventExternalizer.%'`}, nil
	}
	return Definition{}, fmt.Errorf("%q is no preset; there are %s", name, strings.Join(Presets, ", "))
}

// Place adds the additional fields of Debezium's event router, as table.fields.additional.placement has them: a list of
// column:placement[:alias].
func (d *Definition) Place(placement string) error {
	for field := range strings.SplitSeq(placement, ",") {
		parts := strings.Split(strings.TrimSpace(field), ":")
		if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
			return fmt.Errorf("%q is no column:placement[:alias]", field)
		}
		alias := parts[0]
		if len(parts) == 3 {
			alias = parts[2]
		}
		switch parts[1] {
		case "header":
			d.Headers = append(d.Headers, Header{parts[0], alias})
		case "partition":
			d.Partition = parts[0]
		case "envelope":
			d.Envelope = append(d.Envelope, Header{parts[0], alias})
		default:
			return fmt.Errorf("%q has the placement %q; there are header, envelope and partition", field, parts[1])
		}
	}
	return nil
}
