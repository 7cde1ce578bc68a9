package postgres

import (
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/outbox"
)

// TestGivenUpAfterTooLong: the events of a topic that is away, or missing, for longer than its settings allow
// become dead letters, all of them; those of another topic go, and when the topic is there again, so do its
// new ones.
func TestGivenUpAfterTooLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		class    relay.Class
		settings relay.TopicSettings
		want     string
	}{
		"an outage":       {relay.Infrastructure, relay.TopicSettings{MaxAge: 400 * time.Millisecond}, "infrastructure " + outbox.CodeMaxAgeExceeded},
		"a missing topic": {relay.Route, relay.TopicSettings{RouteDeadLetterAfter: 400 * time.Millisecond}, "route REFUSED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			b := &memory{}
			b.refuse(c.class, func(m *relay.Message) bool { return m.Topic == "t" })
			f.exec(`insert into postrider.outbox_event (topic, key, payload, created_at) values ('t', 'k', 'old', now() - interval '10 days')`)
			f.writes("t", "k", "one", "two")
			f.writes("t", "l", "three")
			f.writes("u", "k", "x")
			c.settings.DLQTopic = "dlq"
			f.run(b, func(topic string) relay.TopicSettings {
				if topic == "t" {
					return c.settings
				}
				return relay.TopicSettings{}
			}, nil)
			f.waitFor(`select count(*) = 4 from postrider.outbox_event where topic = 't' and state = 'dead_lettered'`)
			f.waitFor(`select state = 'published' from postrider.outbox_event where topic = 'u'`)
			if got := value[string](f, `select string_agg(distinct last_error_class || ' ' || last_error_code, ', ') from postrider.outbox_event where topic = 't'`); got != c.want {
				t.Errorf("they were given up with %s, want %s", got, c.want)
			}
			if !value[bool](f, `select bool_and(last_error_at - case when created_at < now() - interval '1 day' then (select created_at from postrider.outbox_event where id = 2) else created_at end
				>= interval '400 milliseconds') from postrider.outbox_event where topic = 't'`) {
				t.Error("one was given up too early")
			}
			b.mend()
			f.writes("t", "k", "four", "five")
			f.drained()
			if got := b.arrived("t", "k"); got != "four five" {
				t.Errorf("arrived %s", got)
			}
		})
	}
}
