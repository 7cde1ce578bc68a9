package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/postrider/postrider/message"
	"github.com/postrider/postrider/message/dialect"
)

// failure describes the error of a failed attempt.
type failure struct {
	class                Class
	category             message.Category // that the error names
	code, message, stack string
}

func (f failure) letterClass() string {
	if f.class == ClassPermanent {
		return letterPermanent
	}
	return letterRecord
}

// verdict is what becomes of a failed message: it is tried again here after a while, or it leaves for another topic.
type verdict struct {
	again  time.Duration // where it stays
	record Record        // the record to write, where it leaves
	wait   time.Duration // how long it stays where a retry topic does not take it
	early  bool          // it was not due: nothing has failed
	dead   bool          // to the dead-letter topic
	// the failure is kept for a dead letter that has to be smaller.
	failure failure
	probe   bool // the attempt was the circuit breaker's
}

func (v *verdict) leaves() bool { return v.record.Topic != "" }

// failed takes note of a failed attempt and decides what becomes of the message. ok is false when the circuit breaker
// does not let it be given up: the attempt does not count then.
func (c *Consumer) failed(r *route, m *Message, err error, probe bool) (v verdict, ok bool) {
	now := time.Now()
	if e, is := errors.AsType[*earlyError](err); is {
		return c.early(r, m, e.at, now), true
	}
	v.probe = probe
	v.failure = failure{code: codeOf(err), message: err.Error(), stack: stackOf(err)}
	v.failure.class, v.failure.category = classOf(err, c.cfg.Classify)
	failed := m.Attempt()
	r.counts.failures(v.failure.class).Inc()
	transient := v.failure.class != ClassPermanent
	switch {
	case transient && r.policy.Endless:
		v.again = r.policy.Delays[min(failed, len(r.policy.Delays))-1]
	case transient && failed <= len(r.policy.Delays) && r.policy.Mode != Tiers:
		v.again = r.policy.Delays[failed-1]
	case transient && failed <= len(r.tiers):
		m.failed(now)
		v.wait = r.policy.Delays[failed-1]
		v.record = retryRecord(m, r.tiers[failed-1], c.cfg.Group, v.failure, now.Add(v.wait))
		c.say(slog.LevelInfo, "a message is tried again", m, v.failure, slog.String("in", v.wait.String()))
		return v, true
	default:
		if !r.breaker.admit(probe, now) {
			return v, false
		}
		m.failed(now)
		v.dead = true
		v.record = c.letter(r, m, v.failure, whole)
		c.say(slog.LevelWarn, "a message is given up", m, v.failure)
		return v, true
	}
	m.failed(now)
	c.say(slog.LevelInfo, "a message is tried again", m, v.failure, slog.String("in", v.again.String()))
	return v, true
}

// fit is how much of a message its dead letter carries.
type fit int

const (
	// whole: key, value and headers, byte for byte, and the error with its stack in every dialect.
	whole fit = iota
	// brief: the same without the stack, with a short error message, and in Postrider's dialect alone.
	brief
	// withoutValue: the value is left out; the collector fetches it from where the record was first read.
	withoutValue
	// bare: key and the message's own headers are left out as well.
	bare
)

// letter returns the dead letter of a message that was given up, with as much of it as fits says.
func (c *Consumer) letter(r *route, m *Message, f failure, fits fit) Record {
	writers := c.cfg.DeadLetterHeaders
	if fits > whole {
		f.stack, f.message, writers = "", dialect.Capped(f.message, maxRetryMessage), []dialect.Writer{dialect.Postrider}
	}
	rec, err := deadLetter(m, r, c.cfg.Group, f, writers, fits)
	if err != nil { // the group, the topics and the writers were checked, and an origin comes from the broker
		c.log.Error("the headers of a dead letter are not whole", slog.Any("err", err))
		return Record{Topic: r.policy.DeadLetterTopic, Key: m.Key, Value: m.Value, Headers: m.Headers}
	}
	return rec
}

func (c *Consumer) say(level slog.Level, text string, m *Message, f failure, more ...slog.Attr) {
	attrs := append([]slog.Attr{slog.String("topic", m.Topic), slog.Int("partition", int(m.Partition)), slog.Int64("offset", m.Offset),
		slog.Int("retry_attempt", m.past.failed), slog.String("error_class", string(f.class)), slog.String("error_code", f.code), slog.String("err", dialect.Capped(f.message, maxRetryMessage))}, more...)
	if f.category != "" {
		attrs = append(attrs, slog.String("error_category", string(f.category)))
	}
	if id := m.TraceID(); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	if id := m.EventID(); id != "" {
		attrs = append(attrs, slog.String("event_id", id))
	}
	c.log.LogAttrs(context.Background(), level, text, attrs...)
}

const (
	// publishPatience is how long a record may be without an acknowledgement before its partition says that it stands.
	publishPatience = 10 * time.Second
	// publishPause and publishPauseMax are the pauses between attempts to write a record.
	publishPause    = 250 * time.Millisecond
	publishPauseMax = 10 * time.Second
)

// leave writes a failed message to where it goes, for as long as that takes: until it is acknowledged the offset does
// not pass it. left is false when the partition is taken away first, or when the message is too large for its retry topic
// with what is noted about it: then again is how long it waits here instead.
func (c *Consumer) leave(l *state, r *route, m *Message, v verdict) (left bool, again time.Duration) {
	t := &trouble{}
	defer l.goesOn(t)
	hop := c.tracing.hop(m, v.record.Topic)
	defer func() { hop.end(left, again > 0) }()
	fits := whole
	for pause := publishPause; ; pause = min(2*pause, publishPauseMax) {
		topic := v.record.Topic // a patience that is just over reads on while the record is made smaller
		late := time.AfterFunc(publishPatience, func() {
			l.stands(c, t, topic, errors.New("no broker has acknowledged the record"))
		})
		err := c.cfg.Client.Publish(l.ctx, hop.mark(v.record, fits == whole))
		late.Stop()
		if err == nil {
			r.counts.left(&v).Inc()
			return true, 0
		}
		if l.ctx.Err() != nil {
			return false, 0
		}
		if errors.Is(err, ErrTooLarge) {
			if !v.dead {
				if !v.early {
					c.say(slog.LevelInfo, "a message is too large for its retry topic and waits in its own", m, v.failure, slog.String("in", v.wait.String()))
				}
				return false, v.wait
			}
			if fits < bare {
				fits++
				v.record = c.letter(r, m, v.failure, fits)
				continue
			}
		}
		c.m.publishErrors.WithLabelValues(kindOf(v.dead)).Inc()
		l.stands(c, t, v.record.Topic, err)
		if !l.sleep(pause) {
			return false, 0
		}
		if fits == bare { // by then the topic may take the whole letter
			fits = whole
			v.record = c.letter(r, m, v.failure, fits)
		}
	}
}
