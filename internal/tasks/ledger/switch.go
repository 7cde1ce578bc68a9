package ledger

import "time"

// Engine is a kind of engine that people pause. Its name is the one that tasker_switch and the audit log have.
type Engine string

const (
	// EngineDetector: the detectors of stale tasks.
	EngineDetector Engine = "detector"
	// EngineArchiver: the archivers of tasks.
	EngineArchiver Engine = "archiver"
)

// Switch is the switch of all engines of one kind of a database.
type Switch struct {
	// Paused says that none of them works now.
	Paused bool `json:"paused"`
	// PausedAt is since when they are paused.
	PausedAt *time.Time `json:"paused_at"`
	// PausedBy is who paused them, all names if several did; empty while they work.
	PausedBy string `json:"paused_by"`
	// Reason is why they are paused; empty while they work.
	Reason string `json:"pause_reason"`
	// ResumeAt is when they go on by themselves. If it is nil, they wait until an operator resumes them.
	ResumeAt *time.Time `json:"resume_at"`
}

// Pause stops the engines of one kind.
type Pause struct {
	// By is who pauses them, Reason why.
	By, Reason string
	// For is how long; 0 is until an operator resumes them.
	For time.Duration
}
