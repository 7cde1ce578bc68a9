package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// StalenessAction is what a template wants done with its stale tasks.
type StalenessAction string

// The actions.
const (
	// ActionDLQ moves a stale task aside and opens an investigation. It is the default.
	ActionDLQ StalenessAction = "dlq"
	// ActionError moves a stale task aside and opens none.
	ActionError StalenessAction = "error"
	// ActionManualReview leaves a stale task where it is and opens an investigation, once per stay.
	ActionManualReview StalenessAction = "manual_review"
)

// StalenessActions lists them all.
func StalenessActions() []StalenessAction {
	return []StalenessAction{ActionDLQ, ActionError, ActionManualReview}
}

// Lifecycle is what a template, or a namespace, says about how long its tasks may take. Everything may be
// left out: a template's own goes before its namespace's, that before the defaults, key by key.
type Lifecycle struct {
	// MaxDurationMinutes bounds the age of a task. Defaults to the namespace's, then to 24 hours.
	MaxDurationMinutes *int
	// MaxStateMinutes bounds the stay in a state, by its name: the keys max_<state>_minutes. Defaults to the
	// namespace's, then to the ones of Defaults.
	MaxStateMinutes map[string]int
	// StalenessAction says what happens to a stale task. Defaults to the namespace's, then to ActionDLQ.
	StalenessAction StalenessAction
	// AutoFailOnTimeout false leaves a stale task where it is. Defaults to the namespace's, then to true.
	AutoFailOnTimeout *bool
	// AutoDLQOnTimeout false opens no investigation. Defaults to the namespace's, then to true.
	AutoDLQOnTimeout *bool
}

// The keys of a lifecycle.
const (
	keyMaxDuration     = "max_duration_minutes"
	keyStalenessAction = "staleness_action"
	keyAutoFail        = "auto_fail_on_timeout"
	keyAutoDLQ         = "auto_dlq_on_timeout"
)

// stateKey is the key that bounds the stay in a state.
func stateKey(state string) string { return "max_" + state + "_minutes" }

// keyState is the state that a key of a lifecycle is about.
func keyState(key string) (state string, ok bool) {
	rest, ok := strings.CutPrefix(key, "max_")
	if !ok {
		return "", false
	}
	state, ok = strings.CutSuffix(rest, "_minutes")
	return state, ok && state != ""
}

// MarshalJSON writes the keys that are set.
func (l Lifecycle) MarshalJSON() ([]byte, error) {
	keys := map[string]any{}
	if l.MaxDurationMinutes != nil {
		keys[keyMaxDuration] = *l.MaxDurationMinutes
	}
	for state, minutes := range l.MaxStateMinutes {
		keys[stateKey(state)] = minutes
	}
	if l.StalenessAction != "" {
		keys[keyStalenessAction] = l.StalenessAction
	}
	if l.AutoFailOnTimeout != nil {
		keys[keyAutoFail] = *l.AutoFailOnTimeout
	}
	if l.AutoDLQOnTimeout != nil {
		keys[keyAutoDLQ] = *l.AutoDLQOnTimeout
	}
	return json.Marshal(keys)
}

// UnmarshalJSON reads what MarshalJSON wrote, with the checks of ParseLifecycle.
func (l *Lifecycle) UnmarshalJSON(data []byte) error {
	parsed, err := ParseLifecycle("lifecycle", data)
	if err == nil {
		*l = *parsed
	}
	return err
}

// String lists the keys that are set, in a fixed order.
func (l *Lifecycle) String() string {
	var words []string
	if l.MaxDurationMinutes != nil {
		words = append(words, fmt.Sprintf("%s %d", keyMaxDuration, *l.MaxDurationMinutes))
	}
	for _, state := range slices.Sorted(maps.Keys(l.MaxStateMinutes)) {
		words = append(words, fmt.Sprintf("%s %d", stateKey(state), l.MaxStateMinutes[state]))
	}
	if l.StalenessAction != "" {
		words = append(words, keyStalenessAction+" "+string(l.StalenessAction))
	}
	if l.AutoFailOnTimeout != nil {
		words = append(words, fmt.Sprintf("%s %t", keyAutoFail, *l.AutoFailOnTimeout))
	}
	if l.AutoDLQOnTimeout != nil {
		words = append(words, fmt.Sprintf("%s %t", keyAutoDLQ, *l.AutoDLQOnTimeout))
	}
	return strings.Join(words, ", ")
}
