package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// odd is a thing with a time that RFC 3339 cannot say in every field that is one. Lists have one thing.
func odd[T any]() (thing T) {
	makeOdd(reflect.ValueOf(&thing).Elem())
	return thing
}

func makeOdd(v reflect.Value) {
	switch _, isTime := v.Interface().(time.Time); {
	case isTime:
		v.Set(reflect.ValueOf(time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)))
	case v.Kind() == reflect.Pointer && v.Type().Elem() == reflect.TypeFor[time.Time]():
		v.Set(reflect.New(v.Type().Elem()))
		makeOdd(v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			makeOdd(v.Field(i))
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		makeOdd(v.Index(0))
	}
}

// TestEveryTimeCanBeSaid: whatever time a row has, what is shown of it is JSON.
func TestEveryTimeCanBeSaid(t *testing.T) {
	t.Parallel()
	for _, shown := range []any{
		TaskOf(odd[ledger.Task]()), StepOf(odd[ledger.Step]()), TransitionOf(odd[ledger.Transition]()), StepTransitionOf(odd[ledger.StepTransition]()),
		UndeliveredEventOf(odd[ledger.UndeliveredEvent]()), WholeTaskOf(odd[ledger.WholeTask]()), DetectorOf(odd[ledger.DetectorStatus]()), SwitchOf(odd[ledger.Switch]()),
		ArchiveStatisticsOf(odd[ledger.ArchiveStatistics]()), TemplateOf(odd[ledger.Template]()), NamespaceOf(odd[ledger.Namespace]()),
		EventOf(odd[relay.EventStatus]()), NewEventList(odd[relay.EventPage]()), NewHold(odd[relay.HoldStatus]()), NewOutboxStatus(odd[relay.Status]()),
		KeyOf(odd[access.Key]()), DoneOf(odd[access.Done]()),
	} {
		if _, err := json.Marshal(shown); err != nil {
			t.Errorf("%T: %v", shown, err)
		}
	}
}

// TestShowingChangesNothing: what is shown of a thing has times of its own.
func TestShowingChangesNothing(t *testing.T) {
	t.Parallel()
	task, hold := odd[ledger.Task](), odd[relay.HoldStatus]()
	shown, shownHold := TaskOf(task), NewHold(hold)
	if task.CompletedAt.Year() != 20000 || hold.NextProbeAt.Year() != 20000 {
		t.Errorf("the task's time became %s, the hold's %s", task.CompletedAt, hold.NextProbeAt)
	}
	if shown.CompletedAt.Year() != 9999 || shownHold.NextProbeAt.Year() != 9999 {
		t.Errorf("the task's time is shown as %s, the hold's as %s", shown.CompletedAt, shownHold.NextProbeAt)
	}
}

// TestListsSayWhereTheyGoOn: a page that is not the last has the place behind its last thing, and none is a page, too.
func TestListsSayWhereTheyGoOn(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	task := ledger.Task{UUID: [16]byte{1}}
	archived := ledger.Task{UUID: [16]byte{2}, ArchivedAt: &at}
	done, hold := access.Done{ID: 7}, relay.HoldStatus{ID: 8, HeldAt: at}
	for name, c := range map[string]struct {
		list any
		want string
	}{
		"tasks":            {NewTaskList([]ledger.Task{task}, true).Next, "01000000-0000-0000-0000-000000000000"},
		"the last tasks":   {NewTaskList([]ledger.Task{task}, false).Next, ""},
		"no tasks":         {NewTaskList(nil, false).Next, ""},
		"archived tasks":   {NewArchivedTaskList([]ledger.Task{archived}, true).Next, "2026-01-02T02:04:05.000006Z_02000000-0000-0000-0000-000000000000"},
		"the last archive": {NewArchivedTaskList([]ledger.Task{archived}, false).Next, ""},
		"events":           {NewEventList(relay.EventPage{Next: 9}).Next, "9"},
		"the last events":  {NewEventList(relay.EventPage{}).Next, ""},
		"audit":            {NewAuditList([]access.Done{done, {ID: 6}}, 1).Next, "7"},
		"the last audit":   {NewAuditList([]access.Done{done}, 1).Next, ""},
		"holds":            {NewHoldList([]relay.HoldStatus{hold, {ID: 9}}, 1).Next, "2026-01-02T02:04:05.000006Z_8"},
		"the last holds":   {NewHoldList([]relay.HoldStatus{hold}, 1).Next, ""},
	} {
		got := ""
		if next, _ := c.list.(*string); next != nil {
			got = *next
		}
		if got != c.want {
			t.Errorf("%s go on at %q, want %q", name, got, c.want)
		}
	}
}
