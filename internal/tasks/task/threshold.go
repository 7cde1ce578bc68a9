package task

// Source says who set a threshold.
type Source string

// The sources, the first that says something wins.
const (
	SourceTemplate  Source = "template"
	SourceNamespace Source = "namespace"
	SourceDefault   Source = "default"
)

// ThresholdKind says what a threshold bounds.
type ThresholdKind string

// The kinds of thresholds.
const (
	// ThresholdState bounds the stay in a state.
	ThresholdState ThresholdKind = "state"
	// ThresholdLifetime bounds the age of the task.
	ThresholdLifetime ThresholdKind = "lifetime"
)

// Threshold is a bound and where it comes from.
type Threshold struct {
	Minutes int
	Source  Source
}

// Defaults are the thresholds where neither the template nor the namespace has one.
type Defaults struct {
	// WaitingForDependenciesMinutes bounds the stay in waiting_for_dependencies. Defaults to 60.
	WaitingForDependenciesMinutes int
	// WaitingForRetryMinutes bounds the stay in waiting_for_retry. Defaults to 30.
	WaitingForRetryMinutes int
	// StepsInProcessMinutes bounds the stay in steps_in_process. Defaults to 30.
	StepsInProcessMinutes int
	// TaskMaxLifetimeHours bounds the age of a task. Defaults to 24.
	TaskMaxLifetimeHours int
}

// otherStateMinutes bounds the stay in every state that Defaults does not name: a day.
const otherStateMinutes = 1440

// StandardDefaults returns the defaults of Defaults.
func StandardDefaults() Defaults {
	return Defaults{WaitingForDependenciesMinutes: 60, WaitingForRetryMinutes: 30, StepsInProcessMinutes: 30, TaskMaxLifetimeHours: 24}
}

func (d Defaults) state(state string) int {
	switch state {
	case "waiting_for_dependencies":
		return d.WaitingForDependenciesMinutes
	case "waiting_for_retry":
		return d.WaitingForRetryMinutes
	case "steps_in_process":
		return d.StepsInProcessMinutes
	}
	return otherStateMinutes
}

// StateThreshold returns how long a task may stay in a state. A nil lifecycle says nothing.
func StateThreshold(template, namespace *Lifecycle, d Defaults, state string) Threshold {
	for _, l := range layers(template, namespace) {
		if minutes, ok := l.MaxStateMinutes[state]; ok {
			return Threshold{minutes, l.source}
		}
	}
	return Threshold{d.state(state), SourceDefault}
}

// LifetimeThreshold returns how old a task may get.
func LifetimeThreshold(template, namespace *Lifecycle, d Defaults) Threshold {
	for _, l := range layers(template, namespace) {
		if l.MaxDurationMinutes != nil {
			return Threshold{*l.MaxDurationMinutes, l.source}
		}
	}
	return Threshold{d.TaskMaxLifetimeHours * 60, SourceDefault}
}

// Timeout is what the template and the namespace want done with a stale task.
type Timeout struct {
	Action StalenessAction
	// Fail says whether it is moved aside; Letter whether an investigation is opened.
	Fail, Letter bool
}

// OnTimeout resolves what the template and the namespace want done with a stale task, key by key, before any global
// switch.
func OnTimeout(template, namespace *Lifecycle) Timeout {
	t := Timeout{Action: ActionDLQ, Fail: true, Letter: true}
	both := layers(template, namespace)
	for i := len(both) - 1; i >= 0; i-- { // the template last: it wins
		l := both[i]
		if l.StalenessAction != "" {
			t.Action = l.StalenessAction
		}
		if l.AutoFailOnTimeout != nil {
			t.Fail = *l.AutoFailOnTimeout
		}
		if l.AutoDLQOnTimeout != nil {
			t.Letter = *l.AutoDLQOnTimeout
		}
	}
	// The action says what can happen; the two booleans only take away.
	t.Fail = t.Fail && t.Action != ActionManualReview
	t.Letter = t.Letter && t.Action != ActionError
	return t
}

type layer struct {
	*Lifecycle
	source Source
}

func layers(template, namespace *Lifecycle) []layer {
	var ls []layer
	if template != nil {
		ls = append(ls, layer{template, SourceTemplate})
	}
	if namespace != nil {
		ls = append(ls, layer{namespace, SourceNamespace})
	}
	return ls
}
