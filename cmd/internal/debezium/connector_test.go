package debezium

import (
	"reflect"
	"strings"
	"testing"
)

// plain are the settings of a connector that Postrider follows in everything.
func plain() Properties {
	return Properties{
		"name": "orders", "connector.class": Class, "database.hostname": "db", "database.user": "dbz", "database.password": "sentinel", "database.dbname": "shop",
		"topic.prefix": "shop", "plugin.name": "pgoutput", "publication.autocreate.mode": "disabled", "table.include.list": "public.outbox",
		"heartbeat.interval.ms": "10000", "extended.headers.enabled": "false", "snapshot.mode": "no_data",
		"key.converter": "org.apache.kafka.connect.storage.StringConverter", "value.converter": "org.apache.kafka.connect.storage.StringConverter",
		"transforms": "outbox", "transforms.outbox.type": RouterClass,
	}
}

func (p Properties) with(pairs ...string) Properties {
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i]] = pairs[i+1]
	}
	return p
}

func TestRead(t *testing.T) {
	t.Parallel()
	got, err := plain().Read()
	text := Converter{"org.apache.kafka.connect.storage.StringConverter", FormatString}
	want := Connector{Name: "orders", Host: "db", Port: "5432", Database: "shop", User: "dbz", TopicPrefix: "shop", Slot: "debezium", Publication: "dbz_publication",
		Autocreate: "disabled", Plugin: "pgoutput", Tables: []string{"public.outbox"}, Heartbeats: true, Alias: "outbox",
		Router: Router{ID: "id", Key: "aggregateid", Payload: "payload", RouteBy: "aggregatetype", Regex: "(?<routedByValue>.*)", Replacement: "outbox.event.${routedByValue}",
			TracingField: "tracingspancontext"},
		Key: text, Value: text, Header: Converter{"org.apache.kafka.connect.storage.SimpleHeaderConverter", FormatSimple}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = plain().with("transforms", "a, out", "transforms.out.type", RouterClass, "transforms.outbox.type", "", "transforms.out.table.fields.additional.placement", "type:header:eventType, tenant:envelope,part:partition",
		"value.converter", "org.apache.kafka.connect.json.JsonConverter", "key.converter", "org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable", "false",
		"transforms.out.table.expand.json.payload", "TRUE", "table.include.list", "public.outbox, public.a.*", "heartbeat.interval.ms", "0").Read()
	if err != nil || got.Alias != "out" || !reflect.DeepEqual(got.Router.Fields, []Field{{"type", PlaceHeader, "eventType"}, {"tenant", PlaceEnvelope, "tenant"}, {"part", PlacePartition, "part"}}) ||
		got.Value.Format != FormatJSONSchemas || got.Key.Format != FormatJSON || !got.Router.Expand || !got.Router.Enveloped() || len(got.Tables) != 2 || got.Heartbeats {
		t.Errorf("%+v, %v", got, err)
	}
	for says, p := range map[string]Properties{
		"connector.class is missing":   plain().with("connector.class", ""),
		"io.debezium.connector.mysql":  plain().with("connector.class", "io.debezium.connector.mysql.MySqlConnector"),
		"no outbox event router":       plain().with("transforms", "unwrap"),
		"several outbox event routers": plain().with("transforms", "outbox,b", "transforms.b.type", RouterClass),
		`placement: "type" must be`:    plain().with("transforms.outbox.table.fields.additional.placement", "type"),
		`puts type into "topic"`:       plain().with("transforms.outbox.table.fields.additional.placement", "type:topic"),
	} {
		if _, err := p.Read(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
