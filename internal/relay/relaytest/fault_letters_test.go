package relaytest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/message"
)

// TestFault35DeadLetterTopic: the dead-letter topic is missing, refuses, or takes less than a letter is
// large. The events stay exhausted and a hold says why; nothing is dead-lettered that did not arrive; the rest of
// the outbox goes on; and the letters arrive when the topic is well again, as whole as they fit.
func TestFault35DeadLetterTopic(t *testing.T) {
	t.Parallel()
	const stuck = `exists (select from postrider.outbox_hold where scope = 'dead_letter' and topic = $1 and error_code = $2)`
	for name, c := range map[string]struct {
		code    string
		begin   func(r *rig, dlq string) (heal func())
		payload string
	}{
		"missing": {"UNKNOWN_TOPIC_OR_PARTITION", func(r *rig, dlq string) func() {
			return func() { r.broker.CreateTopic(r, dlq, 1, nil) }
		}, message.PayloadReference},
		"not allowed": {"TOPIC_AUTHORIZATION_FAILED", func(r *rig, dlq string) func() {
			r.broker.CreateTopic(r, dlq, 1, nil)
			fault := r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlq, Err: kerr.TopicAuthorizationFailed, Count: -1})
			return func() {
				fault.Remove()
				r.exec(`update postrider.outbox_hold set next_probe_at = now() where scope = 'dead_letter'`) // by itself it comes after 5 s, as with the missing topic
			}
		}, message.PayloadReference},
		"full": {"UNKNOWN_OUTCOME", func(r *rig, dlq string) func() {
			r.broker.CreateTopic(r, dlq, 1, nil)
			return r.broker.Cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: dlq, Err: kerr.KafkaStorageError, Count: -1}).Remove
		}, message.PayloadReference},
		"too small for anything": {"MESSAGE_TOO_LARGE", func(r *rig, dlq string) func() {
			r.broker.CreateTopic(r, dlq, 1, map[string]string{"max.message.bytes": "100"})
			return func() {
				more := "100000"
				if _, err := r.broker.Admin(r).AlterTopicConfigs(r.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &more}}, dlq); err != nil {
					r.Fatal(err)
				}
				r.exec(`update postrider.outbox_exception set next_attempt_at = now() where state = 'exhausted'`) // a minute is long for a test
			}
		}, message.PayloadReference},
		"too small for the payload": {"", func(r *rig, dlq string) func() {
			r.broker.CreateTopic(r, dlq, 1, map[string]string{"max.message.bytes": "3000"})
			return func() {}
		}, message.PayloadReference},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			topic := r.broker.Topic(t, 2, nil)
			dlq := topic + ".dlq"
			heal := c.begin(r, dlq)
			l := r.newLedger(topic)
			l.write(topic, 3, 5)
			l.poison(topic, "k0", maxMessageBytes)
			l.write(topic, 3, 5)
			r.start(dlq)
			if c.code != "" {
				if c.code == "MESSAGE_TOO_LARGE" { // the matter of this letter, so only this one waits
					r.until(`exists (select from postrider.v_outbox_event where state = 'exhausted' and next_attempt_at > now())`)
				} else {
					r.until(stuck, dlq, c.code)
				}
				r.until(`not exists (select from postrider.v_outbox_event where state not in ('published', 'exhausted'))`)
				r.until(`1 = (select count(*) from postrider.v_outbox_event where state = 'exhausted')`)
			}
			heal()
			r.until(drained)
			l.wantOnce(dlq)
			letters := r.broker.ReadAll(t, dlq, 1)
			carried := ""
			for _, h := range letters[0].Headers {
				if h.Key == message.HeaderPayload {
					carried = string(h.Value)
				}
			}
			if len(letters) != 1 || carried != c.payload {
				t.Errorf("%d letters, the first has its payload %s", len(letters), carried)
			}
			r.until(`not exists (select from postrider.outbox_hold)`)
		})
	}
}
