package adopt

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/cmd/internal/debezium"
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
		return FromConnector(debezium.Connector{Router: debezium.DefaultRouter()}, func(string) bool { return false }), nil
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
	fields, err := debezium.ParseFields(placement)
	d.addFields(fields)
	return err
}

func (d *Definition) addFields(fields []debezium.Field) {
	for _, f := range fields {
		h := Header{Column: f.Column, Name: f.Alias}
		switch f.Placement {
		case debezium.PlaceHeader:
			d.Headers = append(d.Headers, h)
		case debezium.PlaceEnvelope:
			d.Envelope = append(d.Envelope, h)
		case debezium.PlacePartition:
			d.Partition = f.Column
		}
	}
}
