package replay

import "hash/maphash"

// again knows which messages were sent again and came back: of a message that has several letters in the round only the
// newest is sent. It is filled while a plan reads the whole round, and asked while the round is carried out.
type again struct {
	seed maphash.Seed
	// newest says of messages that were sent again how often, at most, when they came back.
	newest map[uint64]int
	// sending has what the plan counted for the letters that would be sent, to take it out.
	sending map[sending]counted
	capped  bool
}

// sending names letters of one message, which had been sent again so often.
type sending struct {
	name uint64
	hops int
}

// counted is what a plan counted for the letters of one message.
type counted struct {
	letters, bytes, keyless, fetched int64
	target                           string
}

func newAgain() *again {
	return &again{seed: maphash.MakeSeed(), newest: map[uint64]int{}, sending: map[sending]counted{}}
}

func (a *again) name(of string) uint64 { return maphash.String(a.seed, of) }

// add counts a letter, also one that the conditions leave out: its message was sent again all the same.
func (a *again) add(v *verdict) {
	name := a.name(v.of)
	if v.hops > 0 {
		if hops, known := a.newest[name]; known || len(a.newest) < maxCounted {
			a.newest[name] = max(hops, v.hops)
		} else {
			a.capped = true
		}
	}
	if !v.wanted || v.skip != "" {
		return
	}
	of := sending{name, v.hops}
	c, known := a.sending[of]
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
	a.sending[of] = c
}

// takeOut counts the letters whose messages came back as left alone, and no longer as sent.
func (a *again) takeOut(p *Plan) {
	for of, c := range a.sending {
		if a.newest[of.name] <= of.hops {
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
	if a.newest[a.name(v.of)] > v.hops {
		v.skip = SentAgain
	}
}
