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
		"no actor merges": GroupMerge{Group: a, Into: b}.Check(), "one group": GroupMerge{Group: a, Actor: "ada"}.Check(),
		"itself": GroupMerge{Group: a, Into: a, Actor: "ada"}.Check(), "no actor splits": GroupSplit{Group: a, Entries: []uuid.UUID{b}}.Check(),
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
	groupOf := func(l *Letter) Group {
		f := FingerprintOf(l)
		return Group{UUID: uuid.New(), Fingerprint: f.ID, Parts: f.Parts, Word: Word(l.ErrorCode, l.ErrorMessage)}
	}
	own, merged := groupOf(letterFor("CODE", "", `no "a"`, "orders")), groupOf(letterFor("OTHER", "", "no 5", "orders"))
	entry := func(code, message string) Entry {
		return entryOf(letterFor(code, "", message, "orders"))
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
	if len(back.Entries) != 1 || back.Entries[0] != entries[1].UUID || back.Fingerprints[0] != merged.Fingerprint || back.Word != "other" {
		t.Errorf("%+v", back)
	}
	if _, err := SplitInto(own.UUID, []Group{merged}, entries[:1]); !errors.Is(err, ErrNotFound) {
		t.Errorf("without the group: %v", err)
	}
	own.Fingerprint, own.Parts = FingerprintOf(letterFor("CODE", "", `no "a"`, "orders")).Exact, renewed.Parts
	if _, err := SplitInto(own.UUID, []Group{own}, entries[:1]); !errors.Is(err, ErrAlike) {
		t.Errorf("what is alike: %v", err)
	}
}

// TestGroupsOfOneTextAreToldApart: what differs in a part that no column of the investigation has goes back where it came from.
func TestGroupsOfOneTextAreToldApart(t *testing.T) {
	t.Parallel()
	of := func(change func(*Letter)) *Letter {
		l := letterFor("STALE_STATE", "", `the step "pay" waits`, "")
		change(l)
		return l
	}
	for name, change := range map[string]func(*Letter){
		"template":          func(l *Letter) { l.Template = "shop/refund" },
		"class":             func(l *Letter) { l.ErrorClass = "timeout" },
		"dead-letter topic": func(l *Letter) { l.DLQTopic = "others.dlq" },
	} {
		one, other := of(func(*Letter) {}), of(change)
		if name == "template" {
			one.Template = "shop/order"
		}
		for _, narrow := range []bool{false, true} {
			groupOf := func(l *Letter) Group {
				f := FingerprintOf(l)
				if narrow {
					return Group{UUID: uuid.New(), Fingerprint: f.Exact, Parts: f.ExactParts}
				}
				return Group{UUID: uuid.New(), Fingerprint: f.ID, Parts: f.Parts}
			}
			own, merged := groupOf(one), groupOf(other)
			e := entryOf(other)
			parts, err := SplitInto(own.UUID, []Group{own, merged}, []Entry{e})
			if err != nil || len(parts) != 1 || len(parts[0].Fingerprints) != 1 || parts[0].Fingerprints[0] != merged.Fingerprint || parts[0].Parts != merged.Parts {
				t.Errorf("%s, by names %t: %+v, %v", name, narrow, parts, err)
			}
		}
	}
}

// entryOf is the investigation that a letter opens, as far as splitting reads it.
func entryOf(l *Letter) Entry {
	f := FingerprintOf(l)
	return Entry{UUID: uuid.New(), ErrorCode: l.ErrorCode, ErrorMessage: l.ErrorMessage, Reason: l.Reason, Topic: l.OriginTopic, Fingerprint: f.ID, Exact: f.Exact}
}
