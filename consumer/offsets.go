package consumer

// tracker knows which records of a partition are done, where they are not done in order. The partition must be read on
// behind the last record up to which all are done. Records are numbered in the order in which they come, because
// offsets have gaps.
type tracker struct {
	open  []tracked // a ring of the records from number first on; the one at head is not done
	head  int
	n     int
	first uint64 // number of the record at head
	next  int64  // the offset to read on from; -1 until one record is done
	epoch int32
}

type tracked struct {
	offset int64
	epoch  int32
	done   bool
}

func newTracker() *tracker { return &tracker{next: -1, epoch: -1} }

// add takes note of the next record and returns its number.
func (t *tracker) add(offset int64, epoch int32) uint64 {
	if t.n == len(t.open) {
		t.grow()
	}
	t.open[(t.head+t.n)%len(t.open)] = tracked{offset: offset, epoch: epoch}
	t.n++
	return t.first + uint64(t.n) - 1
}

func (t *tracker) grow() {
	larger := make([]tracked, max(64, 2*len(t.open)))
	for i := range t.n {
		larger[i] = t.open[(t.head+i)%len(t.open)]
	}
	t.open, t.head = larger, 0
}

// done takes note that a record is done with. Doing so twice does nothing.
func (t *tracker) done(number uint64) {
	if number < t.first || number >= t.first+uint64(t.n) {
		return
	}
	t.open[(t.head+int(number-t.first))%len(t.open)].done = true
	for t.n > 0 && t.open[t.head].done {
		r := t.open[t.head]
		t.next, t.epoch = r.offset+1, r.epoch
		t.head = (t.head + 1) % len(t.open)
		t.first++
		t.n--
	}
}

// position returns the offset to read on from; not ok while the first record is not done.
func (t *tracker) position() (offset int64, epoch int32, ok bool) {
	return t.next, t.epoch, t.next >= 0
}

// ahead is the number of records from the first that is not done to the newest.
func (t *tracker) ahead() int { return t.n }
