package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// event is what every side is given: its number in the run, and what its writer says.
type event struct {
	seq          int
	topic        string
	key, payload []byte
}

// event is event seq of a run.
func (o *options) event(topic string, seq int) event {
	return event{seq, topic, fmt.Appendf(nil, "key-%d", seq%o.keys), body(seq, o.payload)}
}

// A payload is JSON: the number in digits of a fixed width, and filling.
const (
	bodyHead  = `{"seq":"`
	seqDigits = 16
	bodyPad   = `","pad":"`
	bodyEnd   = `"}`
	// minPayload is the size of a payload without filling.
	minPayload = len(bodyHead) + seqDigits + len(bodyPad) + len(bodyEnd)
)

// filling is text that compresses no better than a service's identifiers and amounts do.
var filling = func() []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return text
}()

// body is the payload of an event, of this many bytes.
func body(seq, size int) []byte {
	b := make([]byte, 0, max(size, minPayload))
	b = append(b, bodyHead...)
	b = fmt.Appendf(b, "%0*d", seqDigits, seq)
	b = append(b, bodyPad...)
	for n := size - minPayload; n > 0; {
		part := filling[seq*7919%(len(filling)-1):]
		part = part[:min(n, len(part))]
		b, n = append(b, part...), n-len(part)
	}
	return append(b, bodyEnd...)
}

// seqOf reads the number out of a payload; false where there is none.
func seqOf(payload []byte) (int, bool) {
	if len(payload) < minPayload || string(payload[:len(bodyHead)]) != bodyHead {
		return 0, false
	}
	n, err := strconv.Atoi(string(payload[len(bodyHead) : len(bodyHead)+seqDigits]))
	return n, err == nil && n >= 0
}
