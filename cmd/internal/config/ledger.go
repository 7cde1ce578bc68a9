package config

import (
	"time"
)

// Tasks is the section tasks.
type Tasks struct {
	// LifecycleTopic is where the lifecycle events of tasks go, unless their template names another topic;
	// create it. Defaults to "postrider.lifecycle".
	LifecycleTopic string `key:"lifecycle_topic" default:"postrider.lifecycle" check:"topic" help:"topic of the lifecycle events of tasks"`
}

// Staleness is the section staleness. In the file the thresholds may stand in a block thresholds, and the
// four keys that begin with auto_ and emit_ or event_ in a block actions.
type Staleness struct {
	// Enabled runs the detector of stale tasks. Defaults to true.
	Enabled bool `key:"enabled" default:"true" help:"look for stale tasks"`
	// DetectionInterval is the pause between passes of the detector. In seconds. Defaults to 300.
	DetectionInterval time.Duration `key:"detection_interval_seconds" default:"300" min:"1" max:"86400" help:"seconds between passes of the detector"`
	// BatchSize is how many tasks one transaction of a pass takes; a pass goes on until nothing is stale.
	// Defaults to 100.
	BatchSize int `key:"batch_size" default:"100" min:"1" max:"10000" help:"stale tasks in one transaction of the detector"`
	// DryRun only says what would be done: each pass names the tasks of one batch in the log, and says whether that was all
	// (unfinished). Metrics do not count them. Defaults to false.
	DryRun bool `key:"dry_run" default:"false" help:"only say which tasks are stale, change nothing"`
	// WaitingForDependenciesMinutes is how long a task may wait for dependencies, unless its template or
	// namespace says otherwise. Defaults to 60.
	WaitingForDependenciesMinutes int `key:"waiting_for_dependencies_minutes" default:"60" min:"1" max:"5256000" help:"minutes that a task may be in waiting_for_dependencies"`
	// WaitingForRetryMinutes is the same for waiting_for_retry. Defaults to 30.
	WaitingForRetryMinutes int `key:"waiting_for_retry_minutes" default:"30" min:"1" max:"5256000" help:"minutes that a task may be in waiting_for_retry"`
	// StepsInProcessMinutes is the same for steps_in_process. Every other live state has 1440 minutes.
	// Defaults to 30.
	StepsInProcessMinutes int `key:"steps_in_process_minutes" default:"30" min:"1" max:"5256000" help:"minutes that a task may be in steps_in_process"`
	// TaskMaxLifetimeHours is how old a task may become before it must have ended, unless its template or
	// namespace says otherwise. Defaults to 24.
	TaskMaxLifetimeHours int `key:"task_max_lifetime_hours" default:"24" min:"1" max:"87600" help:"hours after its creation within which a task must end"`
	// AutoTransitionToError moves stale tasks aside, to the failed state of their machine, if their template does not
	// forbid it. Without it all stay where they are and are flagged. Defaults to true.
	AutoTransitionToError bool `key:"auto_transition_to_error" default:"true" help:"move stale tasks to their failed state"`
	// AutoMoveToDLQ sends dead letters of stale tasks, if their template does not forbid it; dlq.enabled and
	// dlq.auto_dlq_on_staleness must be true as well. Defaults to true.
	AutoMoveToDLQ bool `key:"auto_move_to_dlq" default:"true" help:"send dead letters of stale tasks"`
	// EmitEvents writes an event about each stale task to the lifecycle topic, beside the events of its transitions.
	// Defaults to true.
	EmitEvents bool `key:"emit_events" default:"true" help:"write an event about each stale task"`
	// EventChannel is the last word of the type of that event, postrider.task.CHANNEL.v1. Defaults to
	// "task_staleness_detected".
	EventChannel string `key:"event_channel" default:"task_staleness_detected" check:"word" help:"last word of the type of the event about a stale task"`
	// WorkerUnavailableMinutes is after how long without a word from any worker of a namespace its stale
	// tasks have the reason worker_unavailable. Defaults to 10.
	WorkerUnavailableMinutes int `key:"worker_unavailable_minutes" default:"10" min:"1" max:"525600" help:"minutes of silence of all workers of a namespace that are the reason of its stale tasks"`
	// TimeBudget bounds a pass: stale tasks that remain after it wait for the next pass. In seconds. Defaults to 60.
	TimeBudget time.Duration `key:"time_budget_seconds" default:"60" min:"1" max:"3600" help:"longest time of one pass of the detector, in seconds"`
	// LatencyLimit is how long one batch of the detector may take. To protect the database, three batches in a row that
	// take longer pause all its detectors for twelve intervals; postrider task detector resume ends that. In
	// milliseconds. Defaults to 5000.
	LatencyLimit time.Duration `key:"latency_limit_ms" default:"5000" min:"10" max:"55000" help:"milliseconds that a batch of the detector may take; three in a row above it pause detection"`
	// WarnPercent is the share of its threshold past which a task is counted by postrider_tasks_near_stale and as a
	// warning of v_task_staleness_monitoring. Defaults to 80.
	WarnPercent int `key:"warn_percent" default:"80" min:"1" max:"100" help:"share of its threshold past which a task is counted as nearly stale"`
}

// Archive is the section archive. In the file the four keys that begin with archive_ and name a kind of task
// may stand in a block policies.
type Archive struct {
	// Enabled moves tasks that ended long ago to the archive. Defaults to true.
	Enabled bool `key:"enabled" default:"true" help:"move tasks that ended long ago to the archive"`
	// RetentionDays is how long ended tasks stay in the ledger at least. Defaults to 30.
	RetentionDays int `key:"retention_days" default:"30" min:"0" max:"36500" help:"days that ended tasks stay in the ledger at least"`
	// ArchiveBatchSize is how many tasks the archiver moves between two rests, in transactions of at most 250.
	// Defaults to 1000.
	ArchiveBatchSize int `key:"archive_batch_size" default:"1000" min:"1" max:"10000" help:"tasks that the archiver moves between two rests"`
	// ArchiveInterval is the pause between passes of the archiver. In hours. Defaults to 24.
	ArchiveInterval time.Duration `key:"archive_interval_hours" default:"24" min:"1" max:"8760" help:"hours between passes of the archiver"`
	// ArchiveCompleted archives tasks that ended well, or were resolved by hand. Defaults to true.
	ArchiveCompleted bool `key:"archive_completed" default:"true" help:"archive completed tasks"`
	// ArchiveFailed archives tasks that failed. Defaults to true.
	ArchiveFailed bool `key:"archive_failed" default:"true" help:"archive failed tasks"`
	// ArchiveCancelled archives cancelled tasks. Defaults to false.
	ArchiveCancelled bool `key:"archive_cancelled" default:"false" help:"archive cancelled tasks"`
	// ArchiveDLQResolved archives tasks whose investigations are closed. Defaults to true.
	ArchiveDLQResolved bool `key:"archive_dlq_resolved" default:"true" help:"archive tasks whose investigations are closed"`
}

// block is a mapping inside a section of the file whose keys may as well stand in the section itself.
type block struct {
	section, name string
	// prefix stands before the names of the block's keys in the section.
	prefix string
	keys   []string
}

// blocks are all blocks that the settings file may have.
var blocks = []block{
	{"kafka", "tls", "tls_", []string{"enabled", "ca_file", "cert_file", "key_file", "insecure_skip_verify"}},
	{"kafka", "sasl", "sasl_", []string{"mechanism", "username", "password", "password_file", "token_file",
		"aws_credentials_file", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"}},
	{"staleness", "thresholds", "", []string{"waiting_for_dependencies_minutes", "waiting_for_retry_minutes", "steps_in_process_minutes", "task_max_lifetime_hours"}},
	{"staleness", "actions", "", []string{"auto_transition_to_error", "auto_move_to_dlq", "emit_events", "event_channel"}},
	{"dlq", "reasons", "reason_", []string{"staleness_timeout", "max_retries_exceeded", "worker_unavailable", "dependency_cycle_detected"}},
	{"collector", "headers", "headers_", []string{"topic", "partition", "offset", "timestamp", "group", "attempts", "code", "error", "stack"}},
	{"console", "oidc", "oidc_", []string{"issuer", "label", "client_id", "client_secret", "client_secret_file", "scopes", "name_claim", "groups_claim"}},
	{"archive", "policies", "", []string{"archive_completed", "archive_failed", "archive_cancelled", "archive_dlq_resolved"}},
}

// blockOf returns the block of a section with a name.
func blockOf(section, name string) (block, bool) {
	for _, b := range blocks {
		if b.section == section && b.name == name {
			return b, true
		}
	}
	return block{}, false
}
