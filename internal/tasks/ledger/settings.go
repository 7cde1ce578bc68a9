package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings are values that the functions of the database need and that their callers, the services, do not pass.
// postrider serve writes them when it starts.
type Settings struct {
	// LifecycleTopic is where lifecycle events go, unless their template names another topic.
	LifecycleTopic string
	// DLQTopic is where the dead letters of tasks go.
	DLQTopic string
	// EventChannel is the last word of the type of the event about a stale task.
	EventChannel string
	// IncludeFullTaskSnapshot puts the task with its steps and history into its dead letter.
	IncludeFullTaskSnapshot bool
	// ReasonMaxRetriesExceeded and ReasonDependencyCycleDetected let dead letters be sent for that reason.
	ReasonMaxRetriesExceeded, ReasonDependencyCycleDetected bool
	// WarnPercent is the share of a threshold past which v_task_staleness_monitoring warns of a task, 1 to 100.
	// Defaults to 80.
	WarnPercent int
	// Detection has the thresholds and switches that hold wherever a caller names none: for detection, for ready tasks
	// and for v_task_staleness_monitoring. DryRun, BatchSize and StoredSwitches do not count. Defaults to
	// DefaultDetection.
	Detection Detection
}

// StoredSettings are the settings that the database has, by their columns.
type StoredSettings map[string]any

// Changes says for people which of them are others in after; empty when none is.
func (s StoredSettings) Changes(after StoredSettings) string {
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if was, is := fmt.Sprint(s[name]), fmt.Sprint(after[name]); was != is {
			changes = append(changes, fmt.Sprintf("%s from %s to %s", name, was, is))
		}
	}
	return strings.Join(changes, ", ")
}
