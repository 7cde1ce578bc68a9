package kafka

import (
	"math/bits"

	"github.com/postrider/postrider/internal/relay"
)

// batchOverhead is the header of a version 2 record batch, 61 bytes, and the length before it in a
// request, up to 4. The broker does not count the length, but the client does, against the same limit.
const batchOverhead = 61 + 4

// encodedSize is the size in bytes of a record batch that holds this message alone, uncompressed, as
// the client compares it with its limit.
func encodedSize(m *relay.Message) int {
	n := 1 + 1 + 1 // attributes, timestamp delta 0, offset delta 0
	n += sized(len(m.Key), m.Key == nil) + sized(len(m.Value), m.Value == nil)
	n += varint(len(m.Headers))
	for i := range m.Headers {
		h := &m.Headers[i]
		n += sized(len(h.Name), false) + sized(len(h.Value), h.Value == nil)
	}
	return batchOverhead + varint(n) + n
}

// surelyFits reports whether encodedSize is at most limit, without counting exactly: no length takes more than ten bytes.
func surelyFits(m *relay.Message, limit int) bool {
	const length = 10
	n := batchOverhead + 3 + 4*length + len(m.Key) + len(m.Value)
	for i := range m.Headers {
		n += 2*length + len(m.Headers[i].Name) + len(m.Headers[i].Value)
	}
	return n <= limit
}

func sized(n int, null bool) int {
	if null {
		return 1 // length -1
	}
	return varint(n) + n
}

// varint is the length of a zigzag varint of a non-negative number.
func varint(n int) int {
	return max(1, (bits.Len(uint(n))+1+6)/7)
}
