package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// carry publishes messages in the way of a relay, again and again, until all are delivered or given up,
// and returns the values of the latter. It belongs under virtual time.
func carry(t *testing.T, p *Publisher, ms []relay.Message) (givenUp []string) {
	t.Helper()
	for range 1000 {
		out := publish(t, p, ms...)
		wantKeysStopped(t, ms, out)
		var rest []relay.Message
		for i := range out {
			switch out[i].Class {
			case relay.Delivered:
			case relay.Permanent:
				givenUp = append(givenUp, string(ms[i].Value))
			case relay.Infrastructure, relay.Route, relay.Record, relay.Withheld:
				rest = append(rest, ms[i])
			default:
				t.Fatalf("outcome %+v", out[i])
			}
		}
		if ms = rest; len(ms) == 0 {
			return givenUp
		}
		time.Sleep(250 * time.Millisecond)
	}
	t.Errorf("%d messages are not delivered after 1000 calls, such as %s", len(ms), ms[0].Value)
	return givenUp
}

// wantKeysStopped checks what Publish promises of keys: once one of its messages does not arrive, none
// of the later ones goes. (A message without an outcome may have got one
// since, and so may the messages that were sent with it.)
func wantKeysStopped(t *testing.T, ms []relay.Message, out []relay.Outcome) {
	t.Helper()
	stopped := map[string]bool{}
	for i, o := range out {
		if ms[i].Key == nil || o.Code == CodeUnknownOutcome {
			continue
		}
		name := ms[i].Topic + " " + string(ms[i].Key)
		goes := o.Class == relay.Delivered
		if goes && stopped[name] {
			t.Errorf("%s went, an earlier one of its key did not", ms[i].Value)
		}
		stopped[name] = stopped[name] || !goes
	}
}

// TestEveryError: whatever the broker answers to whatever the client asks, once or for a while: nothing
// is lost, reordered or doubled, only what it calls bad is given up, the topic works again when the
// answers are good, and another topic does not notice.
func TestEveryError(t *testing.T) {
	t.Parallel()
	for _, request := range []kmsg.Key{kmsg.Produce, kmsg.Metadata} {
		for name, lasts := range map[string]time.Duration{"once": 0, "for a while": 12 * time.Second} {
			t.Run(request.Name()+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := kafkatest.Virtual(t)
					for _, err := range brokerErrors() {
						// A broker that says this has the record; a fault would only claim so.
						if err == kerr.DuplicateSequenceNumber {
							continue
						}
						if _, ok := classes[err]; ok || kerr.IsRetriable(err) || lasts == 0 { // the others are all alike
							testError(t, b, request, err, lasts)
						}
					}
				})
			})
		}
	}
}

func testError(t *testing.T, b *kafkatest.Broker, request kmsg.Key, err *kerr.Error, lasts time.Duration) {
	topic, other := b.Topic(t, 2, nil), b.Topic(t, 1, nil)
	p := newPublisher(t, b, nil)
	defer p.Close()
	warm := messages(topic, 1, "warm")
	wantAll(t, publish(t, p, warm...), relay.Delivered)
	count := 1
	if lasts > 0 {
		count = 0
	}
	f := fault(b, request, topic, err, count)
	if lasts > 0 {
		time.AfterFunc(lasts, f.Remove)
	}
	if request == kmsg.Metadata {
		learn(p)
	}
	ms := append(messages(topic, 3, keys(4)...), messages(other, 2, "x")...)
	out := publish(t, p, ms...)
	wantAll(t, out[12:], relay.Delivered)
	wantKeysStopped(t, ms, out)

	var rest []relay.Message
	var givenUp []string
	for i := range ms[:12] {
		switch out[i].Class {
		case relay.Delivered:
		case relay.Permanent:
			givenUp = append(givenUp, string(ms[i].Value))
		default:
			rest = append(rest, ms[i])
		}
	}
	givenUp = append(givenUp, carry(t, p, rest)...)
	f.Remove()
	class, _ := classify(err)
	about := request == kmsg.Produce || err == kerr.InvalidTopicException // on lookup no other error gives a message up
	if bad := class == relay.Permanent && about && lasts > 0; bad != (len(givenUp) > 0) {
		t.Errorf("%s: %d were given up", err.Message, len(givenUp))
	}
	v := judge(t, b, topic, append(warm, ms...), givenUp)
	if err := v.Err(); err != nil || v.Duplicates > 0 || v.Delivered+v.DeadLettered != 13 {
		t.Errorf("%v (%s)", err, v)
	}
	wantTopic(t, b, other, ms...)
	if t.Failed() {
		t.Fatalf("with %s", err.Message)
	}
}
