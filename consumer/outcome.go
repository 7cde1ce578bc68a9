package consumer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/postrider/postrider/message/dialect"
)

// failure describes the error of a failed attempt.
type failure struct {
	class                Class
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
	dead   bool          // to the dead-letter topic
	// the failure is kept for a dead letter that has to be written smaller.
	failure failure
	probe   bool // the attempt was the circuit breaker's
}

func (v *verdict) leaves() bool { return v.record.Topic != "" }

// failed takes note of a failed attempt and decides what becomes of the message. ok is false when the circuit breaker
// does not let it be given up: the attempt does not count then.
func (c *Consumer) failed(r *route, m *Message, err error, probe bool) (v verdict, ok bool) {
	now := time.Now()
	v.probe = probe
	v.failure = failure{class: classOf(err, c.cfg.Classify), code: codeOf(err), message: err.Error(), stack: stackOf(err)}
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
		v.record = retryRecord(m, r.tiers[failed-1], c.cfg.Group, v.failure, now.Add(r.policy.Delays[failed-1]))
		c.say(slog.LevelInfo, "a message is tried again", m, v.failure, slog.Duration("in", r.policy.Delays[failed-1]))
		return v, true
	default:
		if !r.breaker.admit(probe, now) {
			return v, false
		}
		m.failed(now)
		v.dead = true
		v.record, err = deadLetter(m, r, c.cfg.Group, v.failure, c.cfg.DeadLetterHeaders)
		if err != nil { // the group, the topics and the writers were checked, and an origin comes from the broker
			c.log.Error("the headers of a dead letter are not whole", slog.Any("err", err))
			v.record = Record{Topic: r.policy.DeadLetterTopic, Key: m.Key, Value: m.Value, Headers: m.Headers}
		}
		c.say(slog.LevelWarn, "a message is given up", m, v.failure)
		return v, true
	}
	m.failed(now)
	c.say(slog.LevelInfo, "a message is tried again", m, v.failure, slog.Duration("in", v.again))
	return v, true
}

// smaller returns a smaller dead letter: without a stack, with a short message and with Postrider's own headers alone.
func (c *Consumer) smaller(r *route, m *Message, v verdict) (Record, bool) {
	f := v.failure
	f.stack, f.message = "", dialect.Capped(f.message, maxRetryMessage)
	rec, err := deadLetter(m, r, c.cfg.Group, f, []dialect.Writer{dialect.Postrider})
	return rec, err == nil
}

func (c *Consumer) say(level slog.Level, text string, m *Message, f failure, more ...slog.Attr) {
	attrs := append([]slog.Attr{slog.String("topic", m.Topic), slog.Int("partition", int(m.Partition)), slog.Int64("offset", m.Offset),
		slog.Int("retry_attempt", m.past.failed), slog.String("error_class", string(f.class)), slog.String("error_code", f.code), slog.String("err", dialect.Capped(f.message, maxRetryMessage))}, more...)
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
// not pass it. It returns false when the partition is taken away first.
func (c *Consumer) leave(l *state, r *route, m *Message, v verdict) (left bool) {
	t := &trouble{}
	defer l.goesOn(t)
	hop := c.tracing.hop(m, v.record.Topic)
	defer func() { hop.end(left) }()
	shrunk := false
	for pause := publishPause; ; pause = min(2*pause, publishPauseMax) {
		late := time.AfterFunc(publishPatience, func() {
			l.stands(c, t, v.record.Topic, errors.New("no broker has acknowledged the record"))
		})
		err := c.cfg.Client.Publish(l.ctx, hop.mark(v.record, !shrunk))
		late.Stop()
		if err == nil {
			r.counts.left(v.dead).Inc()
			return true
		}
		if l.ctx.Err() != nil {
			return false
		}
		if errors.Is(err, ErrTooLarge) && !shrunk {
			shrunk = true
			if rec, ok := c.smaller(r, m, v); ok { // if a retry topic does not take it, it cannot be tried again
				if !v.dead && !l.mayGiveUp(r.breaker, v.probe) {
					return false
				}
				v.record, v.dead = rec, true
				continue
			}
		}
		c.m.publishErrors.WithLabelValues(kindOf(v.dead)).Inc()
		l.stands(c, t, v.record.Topic, err)
		if !l.sleep(pause) {
			return false
		}
	}
}

// mayGiveUp waits until the circuit breaker lets a message be given up that was to be tried again and cannot be. During a
// pause it is given up in the place of a probe that fails. It returns false when the partition is taken away first.
func (s *state) mayGiveUp(b *breaker, probe bool) bool {
	for !b.admit(probe, time.Now()) {
		now := time.Now()
		ok, instead, wait := b.enter(now)
		if instead {
			b.probed(false, now)
			return true
		}
		if !ok && !s.sleep(wait) {
			return false
		}
	}
	return true
}
