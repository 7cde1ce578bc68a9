package ledger

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Template is a version of a template as the database has it.
type Template struct {
	// UUID is the id of this version.
	UUID uuid.UUID `json:"named_task_uuid"`
	// Namespace is the namespace that it belongs to.
	Namespace string `json:"namespace_name"`
	// Name is its name.
	Name string `json:"name"`
	// Version is its version.
	Version string `json:"version"`
	// Description is for people; nil for none.
	Description *string `json:"description"`
	// Machine is the name of its state machine: workflow, or namespace/name@version for one of its own.
	Machine string `json:"state_machine"`
	// Configuration is the whole template.
	Configuration json.RawMessage `json:"configuration"`
	// CreatedAt is when it was first applied.
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is when it was last applied with a change.
	UpdatedAt time.Time `json:"updated_at"`
}

// Namespace is a team or a system, with its templates and workers.
type Namespace struct {
	// UUID is the id of the namespace.
	UUID uuid.UUID `json:"task_namespace_uuid"`
	// Name is what templates and workers call it.
	Name string `json:"name"`
	// Description is for people; nil for none.
	Description *string `json:"description"`
	// Lifecycle is what holds for templates that do not say it themselves.
	Lifecycle json.RawMessage `json:"lifecycle"`
	// CreatedAt and UpdatedAt are when it was first named, and changed last.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Applied says what became of a template that was applied.
type Applied string

// What can become of it.
const (
	// AppliedNew: this version was not there.
	AppliedNew Applied = "new"
	// AppliedChanged: it was, and is another now.
	AppliedChanged Applied = "changed"
	// AppliedSame: it was there as it is.
	AppliedSame Applied = "same"
)
