package dlq

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/message"
)

// TestWhoseIsALetter: of an event or a task only in a topic that relays write to. The source of a record is the owner of the
// dead-letter topic, or of the topic that it came from; it says itself which of several, and nothing else.
func TestWhoseIsALetter(t *testing.T) {
	t.Parallel()
	owners := func(topic string) []string {
		return map[string][]string{"orders": {"shop"}, "shop.dlq": {"shop"}, "both": {"bank", "shop"}, "both.dlq": {"bank", "shop"}}[topic]
	}
	whose := Whose{Relays: []string{"postrider.dlq", "dead.eu"}, Owners: owners}
	in := func(r Record, topic string, sources ...string) Record { r.Topic = topic; return from(r, sources...) }
	task := taskRecord(t)
	failedAt := func(topic string) Record {
		f := aFailure()
		f.Topic = topic
		return written(t, f)
	}
	for name, c := range map[string]struct {
		record             Record
		source, id, reason string
	}{
		"an event":                             {in(ourRecord(), "postrider.dlq"), MainSource, "event:" + anEvent + ":2", ""},
		"an event of a source":                 {in(ourRecord(), "dead.eu", "shop"), "shop", "shop/event:" + anEvent + ":2", ""},
		"an event of a source that is unknown": {in(ourRecord(), "dead.eu", "x"), "x", "x/event:" + anEvent + ":2", ""},
		"a task":                               {in(task, "postrider.dlq"), MainSource, "task:", ""},
		"an event among consumers":             {in(ourRecord(), "consumers"), MainSource, "record:consumers/3/42@", CodeNotOfARelay},
		"an event of a source among consumers": {in(ourRecord(), "consumers", "shop"), MainSource, "record:consumers/3/42@", CodeNotOfARelay},
		"an event in a source's topic":         {in(ourRecord(), "shop.dlq", "bank"), "shop", "shop/record:shop.dlq/3/42@", CodeNotOfARelay},
		"a task among consumers":               {in(task, "consumers"), MainSource, "record:consumers/", CodeNotOfARelay},
		"a record of a source's topic":         {in(failedAt("orders"), "consumers", "bank"), "shop", "record:orders/3/42@", "-"},
		"a record of no source's":              {in(failedAt("other"), "consumers", "shop"), MainSource, "record:other/3/42@", "-"},
		"a record of two sources, as it says":  {in(failedAt("both"), "consumers", "shop"), "shop", "record:both/3/42@", "-"},
		"a record of two sources, silent":      {in(failedAt("both"), "consumers"), "bank", "record:both/3/42@", "-"},
		"a record in a source's topic":         {in(failedAt("other"), "shop.dlq", "bank"), "shop", "shop/record:other/3/42@", "-"},
		"a record in the topic of two":         {in(failedAt("orders"), "both.dlq", "x"), "bank", "bank/record:orders/3/42@", "-"},
		"a record among letters of relays":     {in(failedAt("orders"), "postrider.dlq", "bank"), "bank", "bank/record:orders/3/42@", "-"},
		"a record of main's relay":             {in(failedAt("orders"), "postrider.dlq"), "shop", "record:orders/3/42@", "-"},
		"of no dialect":                        {Record{Topic: "shop.dlq", Partition: 1, Offset: 2}, "shop", "shop/record:shop.dlq/1/2", "-"},
	} {
		for decoder, decode := range map[string]func(Record) Letter{"plain": CustomHeaders{}.Decoder(whose), "custom": CustomHeaders{Topic: []string{"x-from"}}.Decoder(whose)} {
			l := decode(c.record)
			if l.Source != c.source || !strings.HasPrefix(l.ID, c.id) || c.reason != "-" && c.reason != CodeNotOfARelay && l.Subject.Type == SubjectRecord ||
				(l.ErrorCode == CodeNotOfARelay) != (c.reason == CodeNotOfARelay) {
				t.Errorf("%s, %s: source %q, id %q, code %q; want %q, %q, %q", name, decoder, l.Source, l.ID, l.ErrorCode, c.source, c.id, c.reason)
			}
			if c.reason == CodeNotOfARelay && (l.EventID != [16]byte{} || l.OutboxID != nil || l.Episode != nil || l.TaskUUID != [16]byte{} || l.Dialect != DialectUnknown) {
				t.Errorf("%s, %s: it names an event or a task: %+v", name, decoder, l)
			}
		}
	}
	// What is sent again is known by the place that it had in its topic, without the name of its source.
	l := CustomHeaders{}.Decoder(whose)(in(failedAt("other"), "shop.dlq"))
	l.EventID = [16]byte{}
	if !strings.HasPrefix(l.Origin(), "other/3/42@") || !strings.HasPrefix(l.FirstSentAs(), "record:other/3/42@") {
		t.Errorf("it is sent again as %s, from %s", l.FirstSentAs(), l.Origin())
	}
	plain := Subject{Type: SubjectRecord, ID: "orders/3/42@5#team/1/2"}
	if plain.recordID() != plain.ID {
		t.Errorf("%s became %s", plain.ID, plain.recordID())
	}
}

// TestLettersOfAnotherDesk are left to that one, in the topics of relays alone.
func TestLettersOfAnotherDesk(t *testing.T) {
	t.Parallel()
	whose := Whose{Relays: []string{"postrider.dlq"}, Desk: "a", EarlierDesks: []string{"z"}}
	for desk, want := range map[string]string{"a": "", "b": "b", "z": "", "": ""} {
		r := ourRecord()
		if desk != "" {
			r.Headers = append(r.Headers, header(message.HeaderDesk, desk))
		}
		if got := whose.otherDesk(r); got != want {
			t.Errorf("of desk %q: %q", desk, got)
		}
		if r.Topic = "consumers"; whose.otherDesk(r) != "" || (Whose{}).otherDesk(r) != "" {
			t.Errorf("a consumer's letter of desk %q is another desk's", desk)
		}
	}
}
