package dlq

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// People know better than a rule what has one cause. They merge groups and split them, and investigations that are opened
// later go where the ones before were put.

// ErrAlike is wrapped by errors about splitting a group if the rule cannot tell the investigations from the others: letters
// that come later would go back to them.
var ErrAlike = errors.New("the investigations cannot be told from the others of their group")

// Bounds of merging and splitting.
const (
	// MaxGroupMerge is how many investigations a GroupMerge moves at once; for more it is asked for again.
	MaxGroupMerge = 10_000
	// MaxGroupSplit is how many investigations a GroupSplit may name.
	MaxGroupSplit = 500
)

// GroupMerge merges a group into another.
type GroupMerge struct {
	// Group is the one that ends: its investigations go into the other, also the ones that are opened later. Required.
	Group uuid.UUID
	// Into is the one that stays. Required.
	Into uuid.UUID
	// Actor is who merges them. Required.
	Actor string
}

// Check reports why a merge is invalid.
func (m GroupMerge) Check() error {
	switch {
	case m.Actor == "":
		return fmt.Errorf("%w: Actor, who merges them, is empty", ErrRequest)
	case m.Group == uuid.Nil || m.Into == uuid.Nil:
		return fmt.Errorf("%w: two groups must be named", ErrRequest)
	case m.Group == m.Into:
		return fmt.Errorf("%w: a group cannot be merged into itself", ErrRequest)
	}
	return nil
}

// MergedGroup says what a GroupMerge did.
type MergedGroup struct {
	// Moved is how many investigations went into the other group.
	Moved int64
	// Left is how many are still in the first one, because there were more than MaxGroupMerge. Merging again moves them.
	Left int64
}

// GroupSplit takes investigations out of a group.
type GroupSplit struct {
	// Group has the investigations. Required.
	Group uuid.UUID
	// Entries are the investigations that are to leave it: 1 to MaxGroupSplit.
	Entries []uuid.UUID
	// Actor is who splits it. Required.
	Actor string
}

// Check reports why a split is invalid.
func (s GroupSplit) Check() error {
	switch {
	case s.Actor == "":
		return fmt.Errorf("%w: Actor, who splits it, is empty", ErrRequest)
	case s.Group == uuid.Nil:
		return fmt.Errorf("%w: no group is named", ErrRequest)
	case len(s.Entries) == 0 || len(s.Entries) > MaxGroupSplit:
		return fmt.Errorf("%w: %d investigations are named; it must be 1 to %d", ErrRequest, len(s.Entries), MaxGroupSplit)
	}
	return nil
}

// SplitPart is a group that investigations leave for.
type SplitPart struct {
	// Fingerprints are what new investigations are known by that are opened in the group. The first is its own.
	Fingerprints []string
	// Parts are what the first fingerprint is of.
	Parts Parts
	// Word is the reason in one word.
	Word string
	// Entries are the investigations that go there.
	Entries []uuid.UUID
}

// SplitInto tells where investigations go that leave a group. sources are the group itself and the groups that were merged
// into it. An investigation of a merged group goes back there, and so do the ones that are opened later. Others go to a new
// group, for which quoted names in the message count, too: the ones that are opened later with the same names go there.
func SplitInto(group uuid.UUID, sources []Group, entries []Entry) ([]SplitPart, error) {
	var parts []SplitPart
	// Others go into one new group, however many texts they have.
	renewed := -1
	for i := range entries {
		e := &entries[i]
		from := e.source(group, sources)
		if from == nil {
			return nil, fmt.Errorf("group %s: %w", group, ErrNotFound)
		}
		at := -1
		if from.UUID != group {
			if at = slices.IndexFunc(parts, func(p SplitPart) bool { return p.Fingerprints[0] == from.Fingerprint }); at < 0 {
				at = len(parts)
				parts = append(parts, SplitPart{Fingerprints: []string{from.Fingerprint}, Parts: from.Parts, Word: from.Word})
			}
		} else {
			if from.Parts.Names {
				return nil, fmt.Errorf("investigation %s: %w", e.UUID, ErrAlike)
			}
			exact := e.exactly(from.Parts)
			id := cmp.Or(e.Exact, exact.fingerprint())
			if renewed < 0 {
				renewed = len(parts)
				parts = append(parts, SplitPart{Parts: exact, Word: Word(e.ErrorCode, e.ErrorMessage)})
			}
			if at = renewed; !slices.Contains(parts[at].Fingerprints, id) {
				parts[at].Fingerprints = append(parts[at].Fingerprints, id)
			}
		}
		parts[at].Entries = append(parts[at].Entries, e.UUID)
	}
	return parts, nil
}

// source is the group whose fingerprint the investigation has: the first that fits it; otherwise the group that it is in.
func (e *Entry) source(group uuid.UUID, sources []Group) *Group {
	var own *Group
	for i := range sources {
		g := &sources[i]
		if g.Fingerprint == e.Fingerprint || g.Fingerprint == e.Exact {
			return g
		}
		if g.UUID == group {
			own = g
		}
	}
	return own
}

// exactly are the parts of the narrower fingerprint of an investigation, from the ones of its group.
func (e *Entry) exactly(p Parts) Parts {
	text := headed(e.RootCause).message
	if p.RootCause == "" {
		text = cmp.Or(rootOf(e.ErrorCode, e.ErrorMessage, "").Outer, e.ErrorMessage)
	}
	p.Message, p.Names = normalise(text, true), true
	return p
}
