package api_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// drawFilter draws a filter of investigations.
func drawFilter(t *rapid.T) dlq.Filter {
	at := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(-62_135_596_799_000_000, 253_402_300_799_000_000).Draw(t, "at")).UTC()
	})
	f := dlq.Filter{
		Status:  rapid.SampledFrom(append(dlq.Statuses(), "")).Draw(t, "status"),
		Reason:  rapid.SampledFrom(append(dlq.Reasons(), "")).Draw(t, "reason"),
		Subject: dlq.Subject{Type: rapid.SampledFrom(append(dlq.SubjectTypes(), "")).Draw(t, "type"), ID: rapid.String().Draw(t, "id")},
		Source:  rapid.SampledFrom([]string{"", dlq.MainSource, "orders-2"}).Draw(t, "source"),
		Topic:   rapid.String().Draw(t, "topic"), ErrorCode: rapid.String().Draw(t, "code"), Assignee: rapid.String().Draw(t, "assignee"),
		Word: rapid.String().Draw(t, "word"), Message: rapid.String().Draw(t, "text"), ConsumerGroup: rapid.String().Draw(t, "consumer group"), DLQTopic: rapid.String().Draw(t, "dlq topic"),
	}
	if rapid.Bool().Draw(t, "bounded") {
		f.Group, f.EventID, f.From, f.To = uuid.New(), uuid.New(), at.Draw(t, "from"), at.Draw(t, "to")
	}
	return f
}

// TestFiltersComeBack: the texts of a filter are read as the filter that they are of, also when they were JSON between.
func TestFiltersComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawFilter(t)
		encoded, err := json.Marshal(api.NewEntryFilter(want))
		if err != nil {
			t.Fatal(err)
		}
		var texts api.EntryFilter
		if err := json.Unmarshal(encoded, &texts); err != nil {
			t.Fatal(err)
		}
		if got, err := texts.Parse(); err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v by %s", got, err, want, encoded)
		}
	})
}

// TestFiltersHaveOneSpelling: an operation is stored with the names that requests have.
func TestFiltersHaveOneSpelling(t *testing.T) {
	t.Parallel()
	at := time.Now()
	stored, err := json.Marshal(dlq.Filter{Status: dlq.Pending, Reason: dlq.ManualDLQ, Subject: dlq.Subject{Type: dlq.SubjectTask, ID: "i"}, Source: "s", Topic: "t",
		ErrorCode: "c", Group: uuid.New(), Assignee: "a", Word: "m", Message: "x", ConsumerGroup: "g", DLQTopic: "d", EventID: uuid.New(), From: at, To: at})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(stored, &members); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range api.Fields(&api.EntryFilter{}) {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(members)); !slices.Equal(names, want) {
		t.Errorf("asked for by %v, stored by %v", names, want)
	}
}

// TestTheFirstMistakeIsTold: the same one each time.
func TestTheFirstMistakeIsTold(t *testing.T) {
	t.Parallel()
	all := api.EntryFilter{Status: "open", DLQReason: "none", SubjectType: "person", Source: "Orders", Group: "x", From: "yesterday", To: "0001-01-01T00:00:00Z"}
	left := all
	for _, field := range api.Fields(&left) {
		if *field.Text == "" {
			continue
		}
		_, err := left.Parse()
		wrong, is := errors.AsType[*api.FieldError](err)
		if !is || wrong.Field != field.Name || wrong.Text != *field.Text || wrong.Want == "" {
			t.Errorf("%+v: %v, want a mistake in %s", left, err, field.Name)
		}
		*field.Text = ""
	}
	for _, group := range []string{uuid.Nil.String(), "{" + uuid.NewString() + "}", "urn:uuid:" + uuid.NewString()} {
		if _, err := (api.EntryFilter{Group: group}).Parse(); err == nil {
			t.Errorf("the group %s is taken", group)
		}
	}
	if s, err := (api.GroupFilter{State: "muted", Source: "s", Topic: "t", ErrorCode: "c", Assignee: "a", Text: "x"}).Parse(); err != nil ||
		s != (dlq.GroupSearch{State: dlq.GroupMuted, Source: "s", Topic: "t", ErrorCode: "c", Assignee: "a", Text: "x"}) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := (api.GroupFilter{State: "open"}).Parse(); err == nil {
		t.Error("a state that there is not is taken")
	}
	if _, err := (api.GroupFilter{Source: "my source"}).Parse(); err == nil {
		t.Error("a source that is no name is taken")
	}
}

// TestATimeWithoutItsZone: the error says what is missing.
func TestATimeWithoutItsZone(t *testing.T) {
	t.Parallel()
	_, err := (api.EntryFilter{From: "2026-11-22T03:13:08"}).Parse()
	if want := `from is "2026-11-22T03:13:08"; it must be a time with its zone, such as 2026-11-22T03:13:08Z or 2026-11-22T03:13:08+01:00`; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string][2]time.Time{
		"2026-01-31":                {day, day.Add(24*time.Hour - time.Microsecond)},
		"2026-01-31T08:00:00Z":      {day.Add(8 * time.Hour), day.Add(8 * time.Hour)},
		"2026-01-31T08:00:00+01:00": {day.Add(7 * time.Hour), day.Add(7 * time.Hour)},
		"0000-12-31":                {}, "10000-01-01T00:00:00Z": {}, "": {}, "2026-02-30": {}, "36h": {},
	} {
		for i, upper := range []bool{false, true} {
			if got, ok := api.ParseTime(text, upper); ok == want[i].IsZero() || ok && !got.Equal(want[i]) {
				t.Errorf("%s, upper %v: %v, %v; want %v", text, upper, got, ok, want[i])
			}
		}
	}
}
