package task

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func whole(n int) *int         { return &n }
func truth(b bool) *bool       { return &b }
func minutes(n int) *Lifecycle { return &Lifecycle{MaxStateMinutes: map[string]int{"pending": n}} }

func TestThresholds(t *testing.T) {
	t.Parallel()
	d := Defaults{WaitingForDependenciesMinutes: 1, WaitingForRetryMinutes: 2, StepsInProcessMinutes: 3, TaskMaxLifetimeHours: 4}
	for state, want := range map[string]int{"waiting_for_dependencies": 1, "waiting_for_retry": 2, "steps_in_process": 3, "pending": 1440, "anything": 1440} {
		if got := StateThreshold(nil, &Lifecycle{}, d, state); got != (Threshold{want, SourceDefault}) {
			t.Errorf("the default of %s is %+v", state, got)
		}
	}
	for _, c := range []struct {
		template, namespace *Lifecycle
		want                Threshold
	}{
		{minutes(5), minutes(6), Threshold{5, SourceTemplate}},
		{nil, minutes(6), Threshold{6, SourceNamespace}},
		{&Lifecycle{}, minutes(6), Threshold{6, SourceNamespace}},
		{minutes(5), nil, Threshold{5, SourceTemplate}},
		{nil, nil, Threshold{1440, SourceDefault}},
	} {
		if got := StateThreshold(c.template, c.namespace, d, "pending"); got != c.want {
			t.Errorf("%v over %v is %+v, want %+v", c.template, c.namespace, got, c.want)
		}
	}
	if got := LifetimeThreshold(&Lifecycle{MaxDurationMinutes: whole(7)}, &Lifecycle{MaxDurationMinutes: whole(8)}, d); got != (Threshold{7, SourceTemplate}) {
		t.Errorf("lifetime %+v", got)
	}
	if got := LifetimeThreshold(minutes(5), &Lifecycle{MaxDurationMinutes: whole(8)}, d); got != (Threshold{8, SourceNamespace}) {
		t.Errorf("lifetime of the namespace %+v", got)
	}
	if got := LifetimeThreshold(nil, nil, StandardDefaults()); got != (Threshold{1440, SourceDefault}) {
		t.Errorf("lifetime by default %+v", got)
	}
}

func TestOnTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		template, namespace *Lifecycle
		want                Timeout
	}{
		{nil, nil, Timeout{ActionDLQ, true, true}},
		{&Lifecycle{StalenessAction: ActionError}, nil, Timeout{ActionError, true, false}},
		{&Lifecycle{StalenessAction: ActionManualReview}, nil, Timeout{ActionManualReview, false, true}},
		{&Lifecycle{StalenessAction: ActionManualReview, AutoFailOnTimeout: truth(true)}, nil, Timeout{ActionManualReview, false, true}},
		{&Lifecycle{StalenessAction: ActionError, AutoDLQOnTimeout: truth(true)}, nil, Timeout{ActionError, true, false}},
		{&Lifecycle{AutoFailOnTimeout: truth(false)}, nil, Timeout{ActionDLQ, false, true}},
		{&Lifecycle{AutoDLQOnTimeout: truth(false)}, nil, Timeout{ActionDLQ, true, false}},
		{nil, &Lifecycle{StalenessAction: ActionError, AutoFailOnTimeout: truth(false)}, Timeout{ActionError, false, false}},
		{&Lifecycle{StalenessAction: ActionDLQ}, &Lifecycle{StalenessAction: ActionError, AutoFailOnTimeout: truth(false)}, Timeout{ActionDLQ, false, true}},
		{&Lifecycle{AutoFailOnTimeout: truth(true), AutoDLQOnTimeout: truth(true)}, &Lifecycle{AutoFailOnTimeout: truth(false), AutoDLQOnTimeout: truth(false)}, Timeout{ActionDLQ, true, true}},
	} {
		if got := OnTimeout(c.template, c.namespace); got != c.want {
			t.Errorf("%v over %v is %+v, want %+v", c.template, c.namespace, got, c.want)
		}
	}
}

// Each case changes one thing of a task that is stale in waiting_for_retry, by the defaults.
func TestStale(t *testing.T) {
	t.Parallel()
	const byDefault = "state 30, lifetime 1440: move_to_dlq"
	moved := Verdict{Stale: true, Threshold: Threshold{30, SourceDefault}, Kind: ThresholdState, Action: ActionDLQ, Moved: true, Letter: true, Reason: ReasonStaleness}
	with := func(change func(v *Verdict)) Verdict {
		v := moved
		change(&v)
		return v
	}
	inPlace := with(func(v *Verdict) { v.Moved = false })
	silent := with(func(v *Verdict) { v.Letter = false })
	heard := func(minutes int) *time.Time {
		at := epoch.Add(time.Duration(31-minutes) * time.Minute)
		return &at
	}
	for name, c := range map[string]struct {
		change func(s *Stay)
		want   Verdict
	}{
		"the defaults":               {func(*Stay) {}, moved},
		"exactly the threshold":      {func(s *Stay) { s.Now = epoch.Add(30 * time.Minute) }, Verdict{}},
		"a moment more":              {func(s *Stay) { s.Now = epoch.Add(30*time.Minute + time.Microsecond) }, moved},
		"flagged before":             {func(s *Stay) { s.Flag = &Flag{Rule: byDefault, Until: epoch.Add(24 * time.Hour)} }, Verdict{}},
		"flagged, both are passed":   {func(s *Stay) { s.Flag = &Flag{Rule: byDefault} }, Verdict{}},
		"flagged, the other passed":  {func(s *Stay) { s.Flag = &Flag{Rule: byDefault, Until: epoch} }, moved},
		"flagged by another rule":    {func(s *Stay) { s.Flag = &Flag{Rule: "state 30, lifetime 1440: flag"} }, moved},
		"failed":                     {func(s *Stay) { s.State = "error" }, Verdict{}},
		"ended":                      {func(s *Stay) { s.State = "complete" }, Verdict{}},
		"in a state that is not one": {func(s *Stay) { s.State = "nowhere" }, Verdict{}},
		"another state":              {func(s *Stay) { s.State = "blocked_by_failures" }, Verdict{}},
		"old": {func(s *Stay) { s.State, s.Created = "blocked_by_failures", epoch.Add(-24*time.Hour) },
			with(func(v *Verdict) { v.Kind, v.Threshold = ThresholdLifetime, Threshold{1440, SourceDefault} })},
		"old, and long in its state": {func(s *Stay) { s.Created = epoch.Add(-48 * time.Hour) }, moved},
		"a patient template":         {func(s *Stay) { s.Template = &Lifecycle{MaxStateMinutes: map[string]int{"waiting_for_retry": 32}} }, Verdict{}},
		"an impatient namespace": {func(s *Stay) { s.Namespace = &Lifecycle{MaxStateMinutes: map[string]int{"waiting_for_retry": 1}} },
			with(func(v *Verdict) { v.Threshold = Threshold{1, SourceNamespace} })},
		"manual review":              {func(s *Stay) { s.Template = &Lifecycle{StalenessAction: ActionManualReview} }, with(func(v *Verdict) { v.Action, v.Moved = ActionManualReview, false })},
		"error":                      {func(s *Stay) { s.Template = &Lifecycle{StalenessAction: ActionError} }, with(func(v *Verdict) { v.Action, v.Letter = ActionError, false })},
		"not moved, says the switch": {func(s *Stay) { s.Switches.AutoTransitionToError = false }, inPlace},
		"not lettered, says move":    {func(s *Stay) { s.Switches.AutoMoveToDLQ = false }, silent},
		"not lettered, says enabled": {func(s *Stay) { s.Switches.DLQEnabled = false }, silent},
		"not lettered, says dlq":     {func(s *Stay) { s.Switches.AutoDLQOnStaleness = false }, silent},
		"not lettered for staleness": {func(s *Stay) { s.Switches.StalenessTimeout = false }, silent},
		"the other reason's switch":  {func(s *Stay) { s.Switches.WorkerUnavailable = false }, moved},
		"workers were just heard of": {func(s *Stay) { s.LastHeartbeat = heard(10) }, moved},
		"workers are silent":         {func(s *Stay) { s.LastHeartbeat = heard(11) }, with(func(v *Verdict) { v.Reason = ReasonWorkerUnavailable })},
		"silent, and no switch":      {func(s *Stay) { s.LastHeartbeat, s.Switches.WorkerUnavailable = heard(11), false }, with(func(v *Verdict) { v.Reason, v.Letter = ReasonWorkerUnavailable, false })},
		"silent, staleness is off":   {func(s *Stay) { s.LastHeartbeat, s.Switches.StalenessTimeout = heard(11), false }, with(func(v *Verdict) { v.Reason = ReasonWorkerUnavailable })},
		"no worker ever, and no step": {func(s *Stay) {
			s.State, s.Created, s.Entered = "pending", epoch.Add(-48*time.Hour), epoch.Add(-48*time.Hour)
		},
			with(func(v *Verdict) { v.Threshold.Minutes = 1440 })},
		"no worker ever, and steps": {func(s *Stay) {
			s.State, s.Created, s.Entered, s.HasSteps = "pending", epoch.Add(-48*time.Hour), epoch.Add(-48*time.Hour), true
		}, with(func(v *Verdict) { v.Threshold.Minutes, v.Reason = 1440, ReasonWorkerUnavailable })},
		"no worker ever, but one began": {func(s *Stay) { s.HasSteps = true }, moved},
		"a machine without the state":   {func(s *Stay) { s.Machine.Roles.Failed = "" }, inPlace},
	} {
		s := Stay{Machine: Builtin(), State: "waiting_for_retry", Entered: epoch, Created: epoch, Now: epoch.Add(31 * time.Minute),
			Defaults: StandardDefaults(), Switches: AllOn(), WorkerUnavailableAfter: 10 * time.Minute}
		c.change(&s)
		got := Stale(s)
		if (got.Rule == "") == got.Stale || got == moved && got.Rule != byDefault {
			t.Errorf("%s: the rule is %q", name, got.Rule)
		}
		got.Rule = ""
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestLifecycleEncodes(t *testing.T) {
	t.Parallel()
	l := Lifecycle{MaxDurationMinutes: whole(1), MaxStateMinutes: map[string]int{"b": 2, "a": 3}, StalenessAction: ActionError, AutoFailOnTimeout: truth(false), AutoDLQOnTimeout: truth(true)}
	encoded, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var back Lifecycle
	if err := json.Unmarshal(encoded, &back); err != nil || !reflect.DeepEqual(back, l) {
		t.Errorf("%s came back as %+v, %v", encoded, back, err)
	}
	if err := json.Unmarshal([]byte(`{"max_a_minutes": -1}`), &back); err == nil || !reflect.DeepEqual(back, l) {
		t.Errorf("a wrong one became %+v, %v", back, err)
	}
	if got := (&Lifecycle{}).String(); got != "" {
		t.Errorf("nothing is %q", got)
	}
	for text, want := range map[string]bool{
		"max_x_minutes: 5\n": true, "lifecycle: {max_x_minutes: 5}\n": true, "": false, "[]": false, "lifecycle: {max_x_minutes: 5}\nmore: 1\n": false,
	} {
		if l, err := ParseLifecycle("l.yaml", []byte(text)); (err == nil) != want || want && l.MaxStateMinutes["x"] != 5 {
			t.Errorf("%q is %+v, %v", text, l, err)
		}
	}
	if len(Kinds()) != 5 || len(StalenessActions()) != 3 {
		t.Error("kinds or actions are missing")
	}
}
