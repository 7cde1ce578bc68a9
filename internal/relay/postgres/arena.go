package postgres

import "slices"

// arena keeps many small byte strings in few large ones.
type arena struct{ chunk []byte }

const chunkBytes = 64 << 10

// copyOf copies b; nil stays nil, and empty is not nil.
func (a *arena) copyOf(b []byte) []byte {
	if b == nil {
		return nil
	}
	if len(b) == 0 {
		return []byte{}
	}
	if len(b) > chunkBytes/4 {
		return slices.Clone(b)
	}
	if cap(a.chunk)-len(a.chunk) < len(b) {
		a.chunk = make([]byte, 0, chunkBytes)
	}
	begin := len(a.chunk)
	a.chunk = append(a.chunk, b...)
	return a.chunk[begin:len(a.chunk):len(a.chunk)]
}
