package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/tasks/task"
)

// Detection says when tasks are stale, if neither their template nor its namespace says it, and what may be
// done with them. The switches can only forbid an action that a template asks for. A number of 0 takes the
// settings that the database has, see Settings.Detection. See DefaultDetection.
type Detection struct {
	// DryRun only says which tasks are stale and what would be done; nothing is changed or locked.
	DryRun bool
	// BatchSize is the most tasks of one call, which is one transaction.
	BatchSize int
	// The longest stays in the three states that have a default of their own; every other live state has
	// 1440 minutes.
	WaitingForDependenciesMinutes, WaitingForRetryMinutes, StepsInProcessMinutes int
	// TaskMaxLifetimeHours is the age at which a task must have ended.
	TaskMaxLifetimeHours int
	// WorkerUnavailableMinutes: if no worker of a namespace sent a heartbeat for so long, the reason of its stale
	// tasks is worker_unavailable.
	WorkerUnavailableMinutes int
	// AutoTransitionToError lets tasks be moved to the failed state of their machine.
	AutoTransitionToError bool
	// AutoMoveToDLQ lets dead letters be sent.
	AutoMoveToDLQ bool
	// EmitEvents writes an event about each stale task, in addition to the events of its transitions.
	EmitEvents bool
	// ReasonStalenessTimeout and ReasonWorkerUnavailable let dead letters be sent for that reason.
	ReasonStalenessTimeout, ReasonWorkerUnavailable bool
	// StoredSwitches takes the five switches above from the settings that the database has. Defaults to false.
	StoredSwitches bool
}

// StoredDetection returns a Detection that takes everything from the settings that the database has.
func StoredDetection() Detection {
	return Detection{BatchSize: DefaultDetection().BatchSize, StoredSwitches: true}
}

// DefaultDetection returns the default of each field.
func DefaultDetection() Detection {
	t := task.StandardDefaults()
	return Detection{BatchSize: 100, WaitingForDependenciesMinutes: t.WaitingForDependenciesMinutes, WaitingForRetryMinutes: t.WaitingForRetryMinutes,
		StepsInProcessMinutes: t.StepsInProcessMinutes, TaskMaxLifetimeHours: t.TaskMaxLifetimeHours, WorkerUnavailableMinutes: 10, AutoTransitionToError: true, AutoMoveToDLQ: true, EmitEvents: true,
		ReasonStalenessTimeout: true, ReasonWorkerUnavailable: true}
}

// Validate returns an error that names the first field out of range.
func (d Detection) Validate() error {
	if d.BatchSize < 1 {
		return fmt.Errorf("BatchSize is %d, it must be at least 1", d.BatchSize)
	}
	for _, f := range []struct {
		name    string
		minutes int
	}{
		{"WaitingForDependenciesMinutes", d.WaitingForDependenciesMinutes}, {"WaitingForRetryMinutes", d.WaitingForRetryMinutes},
		{"StepsInProcessMinutes", d.StepsInProcessMinutes}, {"TaskMaxLifetimeHours", d.TaskMaxLifetimeHours},
		{"WorkerUnavailableMinutes", d.WorkerUnavailableMinutes},
	} {
		if f.minutes < 0 {
			return fmt.Errorf("%s is %d, it must not be negative", f.name, f.minutes)
		}
	}
	return nil
}

// StaleAction is what was done, or would be, with a stale task.
type StaleAction string

// The actions.
const (
	// StaleMovedToDLQ: moved to the failed state, and a dead letter.
	StaleMovedToDLQ StaleAction = "move_to_dlq"
	// StaleMoved: moved to the failed state, no letter.
	StaleMoved StaleAction = "transition_to_error"
	// StaleReview: it stays, and a dead letter.
	StaleReview StaleAction = "manual_review"
	// StaleFlagged: it stays, no letter. Only its flag says that it was found.
	StaleFlagged StaleAction = "flag"
)

// StaleTask is a task that was found to be stale.
type StaleTask struct {
	// TaskUUID is the id of the task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// NamespaceName is the namespace of its template.
	NamespaceName string `json:"namespace_name"`
	// TaskName is the name of its template.
	TaskName string `json:"task_name"`
	// CurrentState is the state in which it was found.
	CurrentState string `json:"current_state"`
	// TimeInStateMinutes is how long it was in that state, in minutes.
	TimeInStateMinutes int `json:"time_in_state_minutes"`
	// StalenessThresholdMinutes is the threshold that it passed, in minutes.
	StalenessThresholdMinutes int `json:"staleness_threshold_minutes"`
	// ActionTaken is what was done, or in a dry run would have been.
	ActionTaken StaleAction `json:"action_taken"`
	// MovedToDLQ says that it was dead-lettered; false in a dry run.
	MovedToDLQ bool `json:"moved_to_dlq"`
	// TransitionSuccess says that it was moved to the failed state of its machine; false in a dry run.
	TransitionSuccess bool `json:"transition_success"`
	// ThresholdKind says what the threshold is for: state or lifetime.
	ThresholdKind string `json:"threshold_kind"`
	// ThresholdSource says where the threshold comes from: template, namespace or default.
	ThresholdSource string `json:"threshold_source"`
	// DLQReason is the reason that its investigation has, or would have.
	DLQReason string `json:"dlq_reason"`
	// TaskAgeSeconds is counted from when the task was created, or put back to work, as its lifetime is.
	TaskAgeSeconds float64 `json:"task_age_seconds"`
}

// NearStale counts tasks past a share of a threshold; one may be in both counts.
type NearStale struct {
	// State counts tasks past a share of their state's threshold, Lifetime tasks past a share of their lifetime.
	State, Lifetime int64
}

// DetectorStatus is the switch of all detectors of a database, and their last pass.
type DetectorStatus struct {
	Switch
	// LastPassAt is when the last pass of any process ended; nil before the first, and the others are zero then.
	LastPassAt *time.Time `json:"last_pass_at"`
	// LastPassBy is the process that made it: host:pid.
	LastPassBy string `json:"last_pass_by"`
	// LastPassMS is how long it took, in milliseconds.
	LastPassMS float64 `json:"last_pass_ms"`
	// LastPassStale is how many stale tasks it found.
	LastPassStale int `json:"last_pass_stale"`
	// LastPassDryRun says that it changed nothing.
	LastPassDryRun bool `json:"last_pass_dry_run"`
	// Settings are what the detectors of the database go by. The one that starts last writes them.
	Settings StoredSettings `json:"-"`
}

// Pass is what one pass of a detector did.
type Pass struct {
	By string
	// Took is how long it took, Batches how many calls it made.
	Took    time.Duration
	Batches int
	// Stale is how many tasks it found, Moved how many of them it moved, Letters how many it dead-lettered.
	Stale, Moved, Letters int
	DryRun                bool
	// Paused says that the detectors are paused and nothing was done; Unfinished that the time budget ended
	// it, or that it was a dry run whose one batch was full, and more may be stale.
	Paused, Unfinished bool
}

// DetectorStore is the store that a Detector works on. Only the database's clock decides which tasks are stale.
type DetectorStore interface {
	// DetectStale finds stale tasks and moves, dead-letters or flags them, in one transaction.
	DetectStale(ctx context.Context, d Detection) ([]StaleTask, error)
	// NearStale counts the tasks past a share of a threshold.
	NearStale(ctx context.Context, d Detection, share float64) (NearStale, error)
	// DetectorStatus reads the switch and the last pass.
	DetectorStatus(ctx context.Context) (DetectorStatus, error)
	// PauseEngine pauses the engines of a kind of all processes. A pause with an end does not shorten a pause without one,
	// and a pause by PausedByLatency shortens no other.
	PauseEngine(ctx context.Context, e Engine, p Pause) error
	// RecordPass notes a pass for DetectorStatus.
	RecordPass(ctx context.Context, p Pass) error
}

// ErrorType is what kind of failure ended a pass. It is a label of a metric.
type ErrorType string

// The types.
const (
	// ErrorDatabase: the database failed or cannot be reached.
	ErrorDatabase ErrorType = "database"
	// ErrorTimeout: it did not answer in time.
	ErrorTimeout ErrorType = "timeout"
	// ErrorConfiguration: schema, rights or login are wrong. The error stays until an operator corrects them.
	ErrorConfiguration ErrorType = "configuration"
	// ErrorValidation: the database refused a value of the settings or of a template. The error stays until an operator
	// corrects it.
	ErrorValidation ErrorType = "validation"
)

// StoreError is what a store of the ledger returns when the database failed.
type StoreError struct {
	Type ErrorType
	// Hint says what to do; empty when there is nothing to do but to wait.
	Hint string
	// Err is what happened.
	Err error
}

func (e *StoreError) Error() string {
	if e.Hint == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + "; " + e.Hint
}

func (e *StoreError) Unwrap() error { return e.Err }

// typeOf is the type of any error.
func typeOf(err error) ErrorType {
	if e, ok := errors.AsType[*StoreError](err); ok {
		return e.Type
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ErrorTimeout
	}
	return ErrorDatabase
}
