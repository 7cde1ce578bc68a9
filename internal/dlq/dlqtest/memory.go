package dlqtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// Memory is a dlq.Store and dlq.Reader without a database, for tests of what stands on them.
type Memory struct {
	mu      sync.Mutex
	letters map[string]dlq.Letter
	order   []string // ids of letters as they arrived
	entries []*dlq.Entry
}

var _ Subject = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{letters: map[string]dlq.Letter{}} }

// RecordLetters implements dlq.Store.
func (m *Memory) RecordLetters(ctx context.Context, letters []dlq.Letter) (dlq.Recorded, error) {
	var recorded dlq.Recorded
	if err := ctx.Err(); err != nil {
		return recorded, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range letters {
		if _, known := m.letters[l.ID]; known {
			recorded.Repeated++
			continue
		}
		recorded.New++
		entry, predecessor := m.find(l.Subject)
		if entry == nil {
			entry = m.open(l, predecessor)
			recorded.Opened++
		} else {
			entry.Occurrences++
			recorded.Added++
		}
		if l.OccurredAt().After(entry.LastOccurredAt) {
			entry.LastOccurredAt = l.OccurredAt()
		}
		l.EntryUUID, l.RecordedAt = entry.UUID, time.Now()
		m.letters[l.ID] = l
		m.order = append(m.order, l.ID)
	}
	return recorded, nil
}

// find returns the subject's pending entry, or nil, and its newest closed one, or uuid.Nil.
func (m *Memory) find(s dlq.Subject) (pending *dlq.Entry, predecessor uuid.UUID) {
	for _, e := range m.entries {
		switch {
		case e.Subject != s:
		case e.Status == dlq.Pending:
			pending = e
		default:
			predecessor = e.UUID
		}
	}
	return pending, predecessor
}

func (m *Memory) open(l dlq.Letter, predecessor uuid.UUID) *dlq.Entry {
	now := time.Now()
	e := &dlq.Entry{
		UUID: uuid.Must(uuid.NewV7()), Subject: l.Subject, OriginalState: l.OriginalState, Reason: l.Reason,
		DeadLetteredAt: cmp.Or(l.DeadLetteredAt(), now), Status: dlq.Pending, Topic: l.OriginTopic,
		ErrorCode: l.ErrorCode, ErrorMessage: l.ErrorMessage, Occurrences: 1, LastOccurredAt: cmp.Or(l.OccurredAt(), now),
		PredecessorUUID: predecessor, Snapshot: dlq.Snapshot(l), Metadata: l.Metadata, CreatedAt: now, UpdatedAt: now,
	}
	m.entries = append(m.entries, e)
	return e
}

// List implements dlq.Reader.
func (m *Memory) List(_ context.Context, f dlq.Filter) ([]dlq.Entry, int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []dlq.Entry
	for _, e := range slices.Backward(m.entries) {
		if matches(f.Status, e.Status) && matches(f.Reason, e.Reason) && matches(f.Subject.Type, e.Subject.Type) &&
			matches(f.Subject.ID, e.Subject.ID) && matches(f.Topic, e.Topic) && matches(f.ErrorCode, e.ErrorCode) &&
			matches(f.Group, e.GroupUUID) && matches(f.Assignee, e.Assignee) &&
			strings.Contains(strings.ToLower(e.ErrorMessage), strings.ToLower(f.Message)) &&
			!e.CreatedAt.Before(f.From) && (f.To.IsZero() || !e.CreatedAt.After(f.To)) {
			listed := *e
			listed.Snapshot = nil
			found = append(found, listed)
		}
	}
	total := len(found)
	found = found[min(f.Offset, total):]
	return found[:min(cmp.Or(f.Limit, dlq.DefaultLimit), len(found))], total, nil
}

func matches[T comparable](wanted, got T) bool {
	var any T
	return wanted == any || wanted == got
}

// Get implements dlq.Reader.
func (m *Memory) Get(_ context.Context, id uuid.UUID) (dlq.Entry, []dlq.Letter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.UUID != id {
			continue
		}
		var letters []dlq.Letter
		for _, letter := range slices.Backward(m.order) {
			if l := m.letters[letter]; l.EntryUUID == id && len(letters) < dlq.MaxLetters {
				letters = append(letters, l)
			}
		}
		return *e, letters, nil
	}
	return dlq.Entry{}, nil, fmt.Errorf("investigation %s: %w", id, dlq.ErrNotFound)
}

// Resolve implements Subject.
func (m *Memory) Resolve(_ context.Context, id uuid.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.UUID == id {
			e.Status, e.ResolvedAt = dlq.ManuallyResolved, time.Now()
		}
	}
	return nil
}

// Purge implements Subject.
func (m *Memory) Purge(_ context.Context, id uuid.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = slices.DeleteFunc(m.entries, func(e *dlq.Entry) bool { return e.UUID == id })
	for letterID, l := range m.letters {
		if l.EntryUUID == id {
			l.EntryUUID = uuid.Nil
			m.letters[letterID] = l
		}
	}
	return nil
}
