package dlq

import (
	"errors"
	"testing"

	"github.com/google/uuid"
)

func TestMergesAndSplitsThatAreRefused(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	for name, err := range map[string]error{
		"nobody merges": GroupMerge{Group: a, Into: b}.Check(), "one group": GroupMerge{Group: a, Actor: "ada"}.Check(),
		"itself": GroupMerge{Group: a, Into: a, Actor: "ada"}.Check(), "nobody splits": GroupSplit{Group: a, Entries: []uuid.UUID{b}}.Check(),
		"no group": GroupSplit{Entries: []uuid.UUID{b}, Actor: "ada"}.Check(), "nothing": GroupSplit{Group: a, Actor: "ada"}.Check(),
		"too many": GroupSplit{Group: a, Entries: make([]uuid.UUID, MaxGroupSplit+1), Actor: "ada"}.Check(),
	} {
		if !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(GroupMerge{Group: a, Into: b, Actor: "ada"}.Check(), GroupSplit{Group: a, Entries: []uuid.UUID{b}, Actor: "ada"}.Check()); err != nil {
		t.Error(err)
	}
}

// TestWhereSplitInvestigationsGo: back to the group that they were merged from, or into a new one.
func TestWhereSplitInvestigationsGo(t *testing.T) {
	t.Parallel()
	own := Group{UUID: uuid.New(), Fingerprint: "1:own", Parts: FingerprintOf(letterFor("CODE", "", `no "a"`, "orders")).Parts}
	merged := Group{UUID: uuid.New(), Fingerprint: "1:merged", Word: "other", Parts: FingerprintOf(letterFor("OTHER", "", "no 5", "orders")).Parts}
	entry := func(code, message string) Entry {
		return Entry{UUID: uuid.New(), ErrorCode: code, ErrorMessage: message, Topic: "orders"}
	}
	entries := []Entry{entry("CODE", `no "a"`), entry("OTHER", "no 7"), entry("CODE", `no "b"`), entry("CODE", `no "a"`), entry("UNKNOWN", "?")}
	parts, err := SplitInto(own.UUID, []Group{own, merged}, entries)
	if err != nil || len(parts) != 2 {
		t.Fatalf("%+v, %v", parts, err)
	}
	renewed, back := parts[0], parts[1]
	if len(renewed.Entries) != 4 || len(renewed.Fingerprints) != 3 || !renewed.Parts.Names || renewed.Parts.Message != `no "a"` || renewed.Word != "code" ||
		renewed.Fingerprints[0] != FingerprintOf(letterFor("CODE", "", `no "a"`, "orders")).Exact {
		t.Errorf("%+v", renewed)
	}
	if len(back.Entries) != 1 || back.Entries[0] != entries[1].UUID || back.Fingerprints[0] != "1:merged" || back.Word != "other" {
		t.Errorf("%+v", back)
	}
	if _, err := SplitInto(own.UUID, []Group{merged}, entries[:1]); !errors.Is(err, ErrNotFound) {
		t.Errorf("without the group: %v", err)
	}
	own.Parts.Names, own.Parts.Message = true, `no "a"`
	if _, err := SplitInto(own.UUID, []Group{own}, entries[:1]); !errors.Is(err, ErrAlike) {
		t.Errorf("what is alike: %v", err)
	}
}
