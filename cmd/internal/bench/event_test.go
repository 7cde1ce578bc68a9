package main

import (
	"encoding/json"
	"testing"
)

func TestBody(t *testing.T) {
	t.Parallel()
	for _, size := range []int{minPayload, 36, 300, 3 << 20} {
		for _, seq := range []int{0, 12, 1_000_000} {
			b := body(seq, size)
			if len(b) != size || !json.Valid(b) {
				t.Errorf("event %d of %d bytes has %d: %.60s", seq, size, len(b), b)
			}
			if got, ok := seqOf(b); !ok || got != seq {
				t.Errorf("event %d is read as %d, %v", seq, got, ok)
			}
		}
	}
	for _, other := range []string{"", "0000000000000012", `{"seq":"000000000000001x","pad":""}`, `{"sex":"0000000000000012","pad":""}`} {
		if got, ok := seqOf([]byte(other)); ok {
			t.Errorf("%q is event %d", other, got)
		}
	}
}

func TestWrites(t *testing.T) {
	t.Parallel()
	w := newWrites()
	for _, seq := range []int{0, 5, writesChunk + 3} {
		if began, done := w.times(seq); began != 0 || done != 0 {
			t.Errorf("event %d was written before it was: %d, %d", seq, began, done)
		}
		w.begin(seq)
		took := w.end(seq)
		if began, done := w.times(seq); began <= 0 || done < began || done-began != int64(took) {
			t.Errorf("event %d: %d to %d, which took %d", seq, began, done, took)
		}
	}
}
