package ledger

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// HistoryPage asks for a page of the history of a task or of its steps, the newest first.
type HistoryPage struct {
	// After is the next of the page before. Defaults to the newest.
	After string
	// Limit is how many, 1 to MaxLimit. Defaults to HistoryLimit.
	Limit int
}

// HistoryLimit is the default of HistoryPage.Limit, and how many of the newest changes WholeTask has.
const HistoryLimit = 100

// Size is the limit, or HistoryLimit where there is none. A limit out of range is ErrInvalid.
func (p HistoryPage) Size() (int, error) {
	switch {
	case p.Limit < 0 || p.Limit > MaxLimit:
		return 0, fmt.Errorf("%w: the limit is %d; it must be from 1 to %d", ErrInvalid, p.Limit, MaxLimit)
	case p.Limit == 0:
		return HistoryLimit, nil
	}
	return p.Limit, nil
}

// Number is the number of the transition behind which the page begins; a number above all where it begins with the newest.
func (p HistoryPage) Number() (int32, error) {
	if p.After == "" {
		return math.MaxInt32, nil
	}
	n, err := strconv.ParseInt(p.After, 10, 32)
	if err != nil || n < 1 {
		return 0, p.invalid("the number of a transition")
	}
	return int32(n), nil
}

// StepPlace is the place of a transition in the history of a task's steps.
type StepPlace struct {
	// At is when it happened, Position is that of its step, and UUID its id.
	At       time.Time
	Position int
	UUID     uuid.UUID
}

// String is the place as text, which HistoryPage.StepPlace reads.
func (p StepPlace) String() string {
	return fmt.Sprintf("%s_%d_%s", p.At.UTC().Format(time.RFC3339Nano), p.Position, p.UUID)
}

// StepPlace is the place behind which the page begins; nil where it begins with the newest.
func (p HistoryPage) StepPlace() (*StepPlace, error) {
	if p.After == "" {
		return nil, nil
	}
	var s StepPlace
	if parts := strings.Split(p.After, "_"); len(parts) == 3 {
		at, err1 := time.Parse(time.RFC3339Nano, parts[0])
		position, err2 := strconv.ParseInt(parts[1], 10, 32)
		id, err3 := uuid.Parse(parts[2])
		if err1 == nil && err2 == nil && err3 == nil && at.Year() >= 1 && at.Year() <= 9999 {
			s = StepPlace{at, int(position), id}
		}
	}
	if s == (StepPlace{}) {
		return nil, p.invalid("a time, a number and an id")
	}
	return &s, nil
}

func (p HistoryPage) invalid(want string) error {
	return fmt.Errorf("%w: after is %q; it must be the next of an earlier answer: %s", ErrInvalid, p.After, want)
}

// historyReader reads the history of a task, in the ledger or in the archive.
type historyReader interface {
	Transitions(ctx context.Context, task uuid.UUID, p HistoryPage) (found []Transition, next string, err error)
	StepTransitions(ctx context.Context, task uuid.UUID, p HistoryPage) (found []StepTransition, next string, err error)
}

// ReadHistory reads the newest part of the history of the task and of its steps.
func (w *WholeTask) ReadHistory(ctx context.Context, from historyReader) (err error) {
	var next, stepsNext string
	if w.Transitions, next, err = from.Transitions(ctx, w.Task.UUID, HistoryPage{}); err != nil {
		return err
	}
	if w.StepTransitions, stepsNext, err = from.StepTransitions(ctx, w.Task.UUID, HistoryPage{}); err != nil {
		return err
	}
	if next != "" {
		w.TransitionsNext = &next
	}
	if stepsNext != "" {
		w.StepTransitionsNext = &stepsNext
	}
	return nil
}
