package api

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
)

// Operation is one treatment of many investigations.
type Operation struct {
	// UUID is its identity.
	UUID uuid.UUID `json:"operation_uuid"`
	// Kind is redrive, resolve or purge.
	Kind dlq.OperationKind `json:"kind"`
	// Name names it for people.
	Name string `json:"name"`
	// Reason is why it was planned.
	Reason *string `json:"reason"`
	// Actor is who planned it.
	Actor string `json:"actor"`
	// State is planned, canary, running, paused, halted, aborted or completed.
	State dlq.OperationState `json:"state"`
	// Scope is what it is about.
	Scope Scope `json:"scope"`
	// Options say how it goes about it. What they have of headers is redacted.
	Options dlq.OperationOptions `json:"options"`
	// Plan is what it would do, as it looked when it was planned.
	Plan dlq.Plan `json:"plan"`
	// Reaches says whom the messages of a redrive would reach, by topic. It is empty once the operation has begun.
	Reaches []Reach `json:"reaches"`
	// Items is how many investigations are in its scope.
	Items int64 `json:"items"`
	// Done is how many of them were treated.
	Done int64 `json:"done"`
	// Skipped is how many of them nothing was done with; the items say why.
	Skipped int64 `json:"skipped"`
	// Failed is how many of them failed.
	Failed int64 `json:"failed"`
	// Delivered is how many of the done ones were acknowledged by their topic.
	Delivered int64 `json:"delivered"`
	// CameBack is how many of the done ones were given up again: by the relay, or by a consumer group whose letter was here
	// when the delivery was seen.
	CameBack int64 `json:"came_back"`
	// Error is why it halted.
	Error *string `json:"error"`
	// CreatedAt is when it was planned.
	CreatedAt time.Time `json:"created_at"`
	// StartedAt is when it was begun.
	StartedAt *time.Time `json:"started_at"`
	// TreatedAt is when its last item was treated.
	TreatedAt *time.Time `json:"treated_at"`
	// FinishedAt is when it ended.
	FinishedAt *time.Time `json:"finished_at"`
	// UpdatedAt is when it last changed.
	UpdatedAt time.Time `json:"updated_at"`
}

// OperationDetail is an operation with what people did with it.
type OperationDetail struct {
	Operation
	// Commands are what people did with it, the newest 100, the newest first. The audit log has them, and they go with its
	// rows. What the operation did by itself is in its state, its error and its times, and in the command that followed a halt.
	Commands []OperationCommand `json:"commands"`
}

// OperationCommand is what a person did with an operation.
type OperationCommand struct {
	// Command is plan, start, pause, resume or abort.
	Command string `json:"command"`
	// Actor is who did it, by the name that the audit log has.
	Actor string `json:"actor"`
	// At is when.
	At time.Time `json:"at"`
	// Reason is why; null where nothing was said.
	Reason *string `json:"reason"`
	// Halted is why the operation had halted by itself before; null where it had not.
	Halted *string `json:"halted"`
}

// NewOperationDetail is an operation with what people did with it, as the audit log has that.
func NewOperationDetail(o dlq.Operation, done []access.Done) OperationDetail {
	return OperationDetail{NewOperation(o), each(newOperationCommand, done)}
}

func newOperationCommand(d access.Done) OperationCommand {
	var said struct {
		Reason string `json:"reason"`
		Halted string `json:"halted"`
	}
	_ = json.Unmarshal(d.Details, &said) // details that are something else give no reason
	return OperationCommand{strings.TrimPrefix(d.Action, "operation."), d.Actor, Time(d.At), OrNull(said.Reason), OrNull(said.Halted)}
}

// Scope is what an operation is about. It has one of its fields; the others are left out.
type Scope struct {
	// IDs is how many investigations were named; the items have them.
	IDs int `json:"ids,omitempty"`
	// Group is the group whose pending investigations were selected.
	Group *uuid.UUID `json:"group,omitempty"`
	// Filter is what selected them.
	Filter *EntryFilter `json:"filter,omitempty"`
}

// NewOperation is an operation as it is shown.
func NewOperation(o dlq.Operation) Operation {
	v := Operation{
		UUID: o.UUID, Kind: o.Kind, Name: o.Name, Reason: OrNull(o.Reason), Actor: o.Actor, State: o.State,
		Scope: Scope{Group: OrNull(o.Scope.Group)}, Options: o.Options, Plan: o.Plan,
		Reaches: []Reach{},
		Items:   o.Items, Done: o.Done, Skipped: o.Skipped, Failed: o.Failed, Delivered: o.Delivered, CameBack: o.CameBack, Error: OrNull(o.Error),
		CreatedAt: Time(o.CreatedAt), StartedAt: TimeOrNull(o.StartedAt), TreatedAt: TimeOrNull(o.TreatedAt), FinishedAt: TimeOrNull(o.FinishedAt),
		UpdatedAt: Time(o.UpdatedAt),
	}
	if o.Scope.Filter != nil {
		f := NewEntryFilter(*o.Scope.Filter)
		v.Scope.Filter = &f
	} else if v.Scope.Group == nil {
		v.Scope.IDs = int(o.Items) // what does not exist is refused when it is planned
	}
	if o.State == dlq.Planned {
		v.Reaches = each(NewReach, o.Reaches)
	}
	if v.Plan.Topics == nil {
		v.Plan.Topics = map[string]int64{}
	}
	if v.Plan.LeftOut == nil {
		v.Plan.LeftOut = map[dlq.SkipReason]int64{}
	}
	if v.Plan.Overlaps == nil {
		v.Plan.Overlaps = []dlq.Overlap{}
	}
	return v
}

// NewOperationList is a page of at most size operations; found has one more where the list goes on.
func NewOperationList(found []dlq.Operation, size int) List[Operation] {
	return PageOf(NewOperation, found, size, func(o dlq.Operation) string { return o.UUID.String() })
}

// OperationItem is one investigation in the scope of an operation.
type OperationItem struct {
	// Item is its number, in the order in which items are treated.
	Item int64 `json:"item"`
	// Entry is the investigation.
	Entry uuid.UUID `json:"dlq_entry_uuid"`
	// State is what became of it: waiting, done, skipped or failed.
	State string `json:"state"`
	// Reason is why it was skipped, or failed.
	Reason *dlq.SkipReason `json:"reason"`
	// Outcome is what became of a message that was sent again: sent, delivered or came_back. Null for all other items.
	Outcome *string `json:"outcome"`
	// Successor is the investigation that goes on where the message came back dead and opened one.
	Successor *uuid.UUID `json:"successor_uuid"`
	// Topic is the topic that the message was bound for or came from. It is null for a task. It and the fields behind it
	// are null, too, once the investigation is gone.
	Topic *string `json:"topic"`
	// Key is the key of the message as the investigation shows it, at most 200 characters of it; bytes that are not UTF-8
	// are replaced. Null where Kafka's is, and where the investigation does not have it.
	Key *string `json:"key"`
	// EventID is the event of the outbox that the message was; null for none.
	EventID *uuid.UUID `json:"event_id"`
	// TaskUUID is the task that the investigation is about, or that its event belongs to; null for neither.
	TaskUUID *uuid.UUID `json:"task_uuid"`
	// DLQReason is why the subject of the investigation was dead-lettered.
	DLQReason *dlq.Reason `json:"dlq_reason"`
	// ErrorCode is the code of the error; null for none.
	ErrorCode *string `json:"error_code"`
}

// ItemStates are the values of OperationItem.State.
func ItemStates() []string { return []string{"waiting", "done", "skipped", "failed"} }

// ItemOutcomes are the values of OperationItem.Outcome.
func ItemOutcomes() []string { return []string{dlq.ItemSent, dlq.ItemDelivered, dlq.ItemCameBack} }

// NewItemList is a page of at most size items; found has one more where the list goes on.
func NewItemList(found []dlq.Item, size int) List[OperationItem] {
	show := func(i dlq.Item) OperationItem {
		return OperationItem{
			Item: i.Place, Entry: i.Entry, State: i.State, Reason: OrNull(dlq.SkipReason(i.Reason)), Outcome: OrNull(i.Outcome), Successor: OrNull(i.Successor),
			Topic: OrNull(i.Topic), Key: i.Key, EventID: OrNull(i.EventID), TaskUUID: OrNull(i.TaskUUID), DLQReason: OrNull(i.DLQReason), ErrorCode: OrNull(i.ErrorCode),
		}
	}
	return PageOf(show, found, size, func(i dlq.Item) string { return strconv.FormatInt(i.Place, 10) })
}
