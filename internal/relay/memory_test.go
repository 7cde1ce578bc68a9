package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// memory is an outbox in memory: it does and checks the same as the database. Its time is the time of the test.
type memory struct {
	mu                 touching
	lastID, nextHold   int64
	nextXID            uint64
	transactions       int
	rows               map[int64]*memoryRow
	open               map[*memoryTx]bool
	unknown            Stall
	position           int64
	number, term       int64
	gaps               Ranges // after the newest receipt
	events, forgotten  Ranges // of all receipts
	terms              []memoryTerm
	tried              []int64
	holds              map[int64]*memoryHold
	exceptions         map[int64]*memoryException
	skips              map[int64]string
	leader             *memoryLead
	leads              []*memoryLead
	receipts           []Receipt
	purge              func(PurgeLimits) (Purged, error)
	backlog            Backlog
	letterClaims       int
	reads, looks, dues int
	glances, claims    int             // claims are questions for dead letters
	glancesAtLog       int             // of the glances, how many ask for events alone
	settling           context.Context // of the last settlement

	// fail is asked before each call, and returns the error of the call. unanswered is asked after a settlement.
	fail       func(call string) error
	unanswered func() error
	// problems are changes that the database's constraints would have refused, and states that must not be.
	problems []string
}

type memoryRow struct {
	Event
	tx        *memoryTx
	available time.Time
}

// memoryTx is a transaction that may write events: it has locked the table.
type memoryTx struct {
	m                         *memory
	name                      string
	xid                       uint64
	prepared, over, committed bool
}

type memoryTerm struct {
	term, position int64
	worker         string
	ended          bool
}

type memoryHold struct {
	HoldChange
	next  time.Time
	since time.Time
	asked string
}

type memoryException struct {
	Exception
	event             Event
	next              time.Time
	sending, letter   bool
	class, code, text string
	episode           int
}

// never is the time of a probe that is never made.
var never = time.Unix(1<<40, 0)

func newMemory() *memory {
	return &memory{rows: map[int64]*memoryRow{}, open: map[*memoryTx]bool{}, holds: map[int64]*memoryHold{},
		exceptions: map[int64]*memoryException{}, skips: map[int64]string{}, nextXID: 100}
}

func (m *memory) problem(format string, args ...any) error {
	m.problems = append(m.problems, fmt.Sprintf(format, args...))
	return fmt.Errorf(format, args...)
}

// begin begins a transaction that has locked the table and has no id yet.
func (m *memory) begin() *memoryTx {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.transactions++
	x := &memoryTx{m: m, name: fmt.Sprintf("3/%d", m.transactions)}
	m.open[x] = true
	return x
}

// draw draws an id.
func (x *memoryTx) draw() int64 {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	x.m.lastID++
	return x.m.lastID
}

// insert writes an event under an id that was drawn.
func (x *memoryTx) insert(id int64, e Event, delay time.Duration) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	if x.xid == 0 {
		x.xid = x.m.nextXID
		x.m.nextXID++
	}
	named := unkeyed(id)
	e.ID, e.EventID, e.CreatedAt = id, named.EventID, time.Now()
	row := &memoryRow{Event: e, tx: x}
	if delay > 0 {
		row.available = time.Now().Add(delay)
	}
	x.m.rows[id] = row
}

func (x *memoryTx) prepare() {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	if x.xid == 0 {
		x.xid = x.m.nextXID
		x.m.nextXID++
	}
	x.name, x.prepared = fmt.Sprintf("-1/%d", x.xid), true
}

func (x *memoryTx) end(commit bool) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	x.over, x.committed = true, commit
	delete(x.m.open, x)
}

// write commits events, one transaction each, and returns the id of the last.
func (m *memory) write(events ...Event) (id int64) {
	for _, e := range events {
		x := m.begin()
		id = x.draw()
		x.insert(id, e, 0)
		x.end(true)
	}
	return id
}

func (m *memory) visible(id int64) *memoryRow {
	if row := m.rows[id]; row != nil && row.tx.committed {
		return row
	}
	return nil
}

// waiting counts the events that have not found their end.
func (m *memory) waiting() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, row := range m.rows {
		if row.tx.committed && !m.events.Contains(row.ID) {
			n++
		}
	}
	for _, x := range m.exceptions {
		if x.State == Scheduled || x.State == Parked {
			n++
		}
	}
	return n
}

// counts returns how many receipts were written, and how many holds there are.
func (m *memory) counts() (receipts, holds int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.receipts), len(m.holds)
}

// state is where an event stands.
func (m *memory) state(id int64) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch x := m.exceptions[id]; {
	case x != nil:
		return x.State
	case m.events.Contains(id):
		return Published
	}
	return Pending
}

// heldBy returns the holds with a cause, oldest first.
func (m *memory) heldBy(cause Cause) (ids []int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, h := range m.holds {
		if h.Cause == cause {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// check says what the database knows to be wrong.
func (m *memory) check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.problems) > 0 {
		return fmt.Errorf("the database refuses: %s", m.problems[0])
	}
	for id, row := range m.rows {
		if row.tx.committed && m.forgotten.Contains(id) {
			return fmt.Errorf("event %d was forgotten, and is there", id)
		}
		if row.tx.committed && id <= m.position && !m.events.Contains(id) && !m.gaps.Contains(id) {
			return fmt.Errorf("event %d is below the position, in no receipt and no gap", id)
		}
	}
	return nil
}

// The acts of people, as the functions of the schema have them.

func (m *memory) release(hold int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.holds[hold]; h != nil {
		h.next = time.Now()
		if h.Cause == CauseHalted || h.Cause == CauseRedrive || h.Cause == CauseBreaker {
			h.asked = AskedRelease
		}
	}
}

func (m *memory) giveUp(hold int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.holds[hold]; h != nil && (h.Scope == ScopeFailure || h.Scope == ScopeTopic) {
		h.next, h.asked = time.Now(), AskedGiveUp
	}
}

func (m *memory) skip(id int64, reason string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.exceptions[id]; x != nil {
		if x.sending || x.State != Parked && x.State != Scheduled {
			return false
		}
		m.exhaust(x, reason)
		for _, h := range m.holds {
			if h.Scope == ScopeKey && h.EventID == x.EventID && h.next != never {
				h.next = time.Now()
				if h.Cause == CauseRedrive {
					h.asked = AskedRelease
				}
			}
		}
		return true
	}
	if m.visible(id) == nil || m.events.Contains(id) {
		return false
	}
	m.skips[id] = reason
	return true
}

func (m *memory) exhaust(x *memoryException, reason string) {
	x.State, x.Hold, x.class, x.code, x.text = Exhausted, 0, string(Permanent), CodeSkipped, "skipped by hand: "+reason
	x.episode++
}

// redrive puts a dead-lettered event that halts its key back in its place.
func (m *memory) redrive(id int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.exceptions[id]
	if x == nil || x.State != DeadLettered {
		return false
	}
	for _, h := range m.holds {
		if h.Scope == ScopeKey && h.EventID == x.EventID && h.Cause == CauseHalted && !h.Draining && h.asked == "" {
			h.Cause, h.next = CauseRedrive, time.Now()
			x.State, x.Hold, x.Attempts = Parked, h.ID, 0
			return true
		}
	}
	return false
}

// touching is a mutex that tells the race detector that its holders and the callers of touch come one after the other. If
// all else is blocked, everything that a test reads was written before.
type touching struct{ sync.Mutex }

func (t *touching) Lock() {
	t.Mutex.Lock()
	touch()
}

func (t *touching) Unlock() {
	touch()
	t.Mutex.Unlock()
}

var (
	touched sync.Mutex
	calls   int
)

func touch() {
	touched.Lock()
	calls++
	touched.Unlock()
}
