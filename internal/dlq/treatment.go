package dlq

import (
	"time"

	"github.com/google/uuid"
)

// Treatment is an operation that an investigation is in, with what became of the investigation there.
type Treatment struct {
	// Operation, Kind, Name, Actor and State are of the operation.
	Operation   uuid.UUID
	Kind        OperationKind
	Name, Actor string
	State       OperationState
	// PlannedAt and StartedAt are when the operation was planned and started; StartedAt is zero before.
	PlannedAt, StartedAt time.Time
	// Item, Reason and Outcome are the State, the Reason and the Outcome of its Item.
	Item    string
	Reason  SkipReason
	Outcome string
}
