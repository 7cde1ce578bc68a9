package replay

import "hash/maphash"

// again knows which messages were sent again and came back: of a message that has several letters in the round only the
// newest is sent. It is filled while a plan reads the whole round, and asked while the round is carried out.
type again struct {
	seed maphash.Seed
	// cameBack has the names of messages that later letters were sent again for.
	cameBack map[uint64]struct{}
	// sending has what the plan counted for each message that would be sent, to take it out.
	sending map[uint64]counted
	capped  bool
}

// counted is what a plan counted for the letters of one message.
type counted struct {
	letters, bytes, keyless, fetched int64
	target                           string
}

func newAgain() *again {
	return &again{seed: maphash.MakeSeed(), cameBack: map[uint64]struct{}{}, sending: map[uint64]counted{}}
}

func (a *again) name(of string) uint64 { return maphash.String(a.seed, of) }

// add counts a letter, also one that the conditions leave out: its message was sent again all the same.
func (a *again) add(v *verdict) {
	if v.again != "" && v.again != v.of {
		if name := a.name(v.again); len(a.cameBack) < maxCounted {
			a.cameBack[name] = struct{}{}
		} else if _, known := a.cameBack[name]; !known {
			a.capped = true
		}
	}
	if !v.wanted || v.skip != "" {
		return
	}
	name := a.name(v.of)
	c, known := a.sending[name]
	if !known && len(a.sending) >= maxCounted {
		a.capped = true
		return
	}
	c.letters++
	c.bytes += int64(len(v.message.Key) + len(v.message.Value))
	c.target = v.message.Topic
	if v.message.Key == nil {
		c.keyless++
	}
	if v.fetched {
		c.fetched++
	}
	a.sending[name] = c
}

// takeOut counts the letters whose messages came back as left alone, and no longer as sent.
func (a *again) takeOut(p *Plan) {
	for name := range a.cameBack {
		c, sent := a.sending[name]
		if !sent {
			continue
		}
		p.Sending -= c.letters
		p.Bytes -= c.bytes
		p.Keyless -= c.keyless
		p.Fetched -= c.fetched
		p.Skipped[SentAgain] += c.letters
		if p.Targets[c.target] -= c.letters; p.Targets[c.target] == 0 {
			delete(p.Targets, c.target)
		}
	}
	a.sending = nil // what is left is asked while the round is carried out
}

// decide leaves a letter alone that a later one stands for.
func (a *again) decide(v *verdict) {
	if !v.wanted || v.skip != "" {
		return
	}
	if _, came := a.cameBack[a.name(v.of)]; came {
		v.skip = SentAgain
	}
}
