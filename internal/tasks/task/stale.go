package task

import (
	"fmt"
	"time"
)

// Reason is why a stale task was dead-lettered.
type Reason string

// The reasons of a stale task; they have the names of the investigations' reasons.
const (
	ReasonStaleness         Reason = "staleness_timeout"
	ReasonWorkerUnavailable Reason = "worker_unavailable"
)

// Switches are the global settings. They only take away from what templates want.
type Switches struct {
	// AutoTransitionToError lets stale tasks be moved aside.
	AutoTransitionToError bool
	// AutoMoveToDLQ, DLQEnabled and AutoDLQOnStaleness together let investigations be opened.
	AutoMoveToDLQ, DLQEnabled, AutoDLQOnStaleness bool
	// StalenessTimeout and WorkerUnavailable let them be opened for that reason.
	StalenessTimeout, WorkerUnavailable bool
}

// AllOn returns the switches that take nothing away.
func AllOn() Switches { return Switches{true, true, true, true, true, true} }

// Stay is a task as the detector finds it.
type Stay struct {
	// Machine is the task's machine; State is one of its states.
	Machine *Machine
	State   string
	// Entered is when the task came to its state or, later, made progress in it; Created when it was created or, later, put back to work, Now the time
	// of the database.
	Entered, Created, Now time.Time
	// Flag is there if this stay was found to be stale before and the task was left in place.
	Flag *Flag
	// Template and Namespace are their lifecycles; nil says nothing.
	Template, Namespace *Lifecycle
	Defaults            Defaults
	Switches            Switches
	// LastHeartbeat is when any worker of the namespace was last heard of; nil if it has no known workers.
	LastHeartbeat *time.Time
	// HasSteps says that its template has steps, which wait for workers.
	HasSteps bool
	// WorkerUnavailableAfter is how long workers may be silent.
	WorkerUnavailableAfter time.Duration
}

// Flag is what the detector leaves at a task that it finds stale and does not move.
type Flag struct {
	// Rule is Verdict.Rule.
	Rule string
	// Until is when the task passes its other threshold; zero if it has passed both.
	Until time.Time
}

// Verdict is what the detector does with a task. Only a stale one has the other fields.
type Verdict struct {
	Stale bool
	// Threshold is the one that was passed; that of the state if both were.
	Threshold Threshold
	Kind      ThresholdKind
	// Action is what the template wants.
	Action StalenessAction
	// Moved says that the task goes to its machine's failed state; otherwise it stays and is flagged.
	Moved bool
	// Letter says that it is dead-lettered, for the reason.
	Letter bool
	Reason Reason
	// Rule has both thresholds and what is done. A flagged task is looked at again once its rule is another.
	Rule string
}

// Stale decides about one task. It is the reference for detect_and_transition_stale_tasks.
func Stale(s Stay) Verdict {
	if !s.Machine.Kind(s.State).Live() {
		return Verdict{}
	}
	stay, lifetime := StateThreshold(s.Template, s.Namespace, s.Defaults, s.State), LifetimeThreshold(s.Template, s.Namespace, s.Defaults)
	v := Verdict{Kind: ThresholdState, Threshold: stay}
	if !passed(s.Now.Sub(s.Entered), stay) {
		v.Kind, v.Threshold = ThresholdLifetime, lifetime
		if !passed(s.Now.Sub(s.Created), lifetime) {
			return Verdict{}
		}
	}
	v.Stale = true
	v.Reason = ReasonStaleness
	allowed := s.Switches.StalenessTimeout
	unavailable := s.LastHeartbeat != nil && s.Now.Sub(*s.LastHeartbeat) > s.WorkerUnavailableAfter
	if s.LastHeartbeat == nil && s.HasSteps {
		// Workers may say nothing of themselves. But none has begun.
		unavailable = s.State == "enqueuing_steps" || s.Machine.Kind(s.State) == KindInitial
	}
	if unavailable {
		v.Reason = ReasonWorkerUnavailable
		allowed = s.Switches.WorkerUnavailable
	}
	wanted := OnTimeout(s.Template, s.Namespace)
	v.Action = wanted.Action
	// Valid machines let every live state go to the failed one, if there is one.
	v.Moved = wanted.Fail && s.Switches.AutoTransitionToError && s.Machine.Allows(s.State, s.Machine.Roles.Failed)
	v.Letter = wanted.Letter && allowed && s.Switches.AutoMoveToDLQ && s.Switches.DLQEnabled && s.Switches.AutoDLQOnStaleness
	action := "flag"
	switch {
	case v.Moved && v.Letter:
		action = "move_to_dlq"
	case v.Moved:
		action = "transition_to_error"
	case v.Letter:
		action = "manual_review"
	}
	v.Rule = fmt.Sprintf("state %d, lifetime %d: %s", stay.Minutes, lifetime.Minutes, action)
	if f := s.Flag; f != nil && f.Rule == v.Rule && (f.Until.IsZero() || !f.Until.Before(s.Now)) {
		return Verdict{}
	}
	return v
}

func passed(age time.Duration, t Threshold) bool { return age > time.Duration(t.Minutes)*time.Minute }
