package message_test

import (
	"testing"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/message"
)

// TestHops: the largest number counts, and a value that is no number counts for nothing.
func TestHops(t *testing.T) {
	t.Parallel()
	for want, values := range map[int][]string{0: {}, 2: {"2"}, 3: {"1", "3", "2"}, 1: {"1", "x", "", "99999999999999999999", "-4", "+7"}} {
		hs := []message.Header{{Name: "other", Value: []byte("9")}}
		for _, v := range values {
			hs = append(hs, message.Header{Name: message.HeaderHops, Value: []byte(v)})
		}
		if got := message.Hops(hs); got != want {
			t.Errorf("%q: %d hops, want %d", values, got, want)
		}
	}
}

// TestHasKey: an empty key is a key.
func TestHasKey(t *testing.T) {
	t.Parallel()
	if (&relay.Event{}).HasKey() || !(&relay.Event{Key: []byte{}}).HasKey() {
		t.Error("null is no key, and an empty text is one")
	}
}
