package httpapi

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// The bodies of requests. Routes name them, and openapi.yaml describes them with the comments of their fields. A field with
// omitempty may be left out.

// nothing is the body of an operation that needs no more than its path.
type nothing struct{}

// requeueBody names the investigations whose messages are sent again, and how.
type requeueBody struct {
	// IDs are 1 to DLQ_REQUEUE_LIMIT investigations.
	IDs []string `json:"ids"`
	// Target is the topic to send to; or group, the retry topic of the consumer group that failed; or origin, where each
	// message was bound for or came from. Where it is left out, it is group for a letter that names a retry topic, and
	// origin for the others.
	Target string `json:"target,omitempty"`
	// MaxHops is how often a message is sent again in all, by redrives and replays; one that came back dead so often is
	// skipped. A message that goes back to its own place in the outbox does not count.
	MaxHops *int `json:"max_hops,omitempty"`
	// Edit is how the message is changed, of one investigation; the letter keeps the original. It needs the scope
	// redrive:edit.
	Edit *editBody `json:"edit,omitempty"`
	// DryRun is true to send nothing: the answer says what would be sent, and whom it would reach.
	DryRun bool `json:"dry_run,omitempty"`
	// WaitSeconds is how long the answer waits for what other sources answer, 1 to 10. A source that is away is asked then, too: it
	// obeys when it is back. Where it is left out it is two seconds, and a source that is away is not asked.
	WaitSeconds *int `json:"wait_seconds,omitempty"`
}

// releaseBody names the investigations whose events let their keys go.
type releaseBody struct {
	// IDs are 1 to DLQ_REQUEUE_LIMIT investigations.
	IDs []string `json:"ids"`
	// WaitSeconds is as for requeue.
	WaitSeconds *int `json:"wait_seconds,omitempty"`
}

// editBody is how a message is changed before it is sent again. It has its payload in one way, or not at all.
type editBody struct {
	// Payload is JSON.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Base64 is the bytes of the payload in base64.
	Base64 *[]byte `json:"payload_base64,omitempty"`
	// Text is the payload as text.
	Text *string `json:"payload_text,omitempty"`
	// Tombstone is true to send null.
	Tombstone bool `json:"tombstone,omitempty"`
	// Headers are sent in place of the message's own: an object, or pairs of name and value.
	Headers json.RawMessage `json:"headers,omitempty"`
}

// purgeBody selects the investigations to remove: either ids or older_than.
type purgeBody struct {
	// IDs are 1 to DLQ_PURGE_LIMIT investigations.
	IDs []string `json:"ids,omitempty"`
	// OlderThan is a time or a date: the investigations opened before, the oldest first, DLQ_PURGE_LIMIT of them.
	OlderThan *string `json:"older_than,omitempty"`
	// ReleaseKeys is whether the keys that the investigations hold are released; otherwise an investigation that holds a key
	// is refused, or passed over.
	ReleaseKeys bool `json:"release_keys,omitempty"`
	// EntryFilter selects among the investigations that OlderThan selects; it has no to.
	api.EntryFilter
}

// changeEntryBody is what is written into an investigation. What is left out stays as it is.
type changeEntryBody struct {
	// Status is what the investigation is closed as.
	Status *dlq.Status `json:"resolution_status,omitempty"`
	// Notes are why it is closed.
	Notes *string `json:"resolution_notes,omitempty"`
	// Alias is the same as Notes.
	Alias *string `json:"notes,omitempty"`
	// ResolvedBy is the person who closed it.
	ResolvedBy *string `json:"resolved_by,omitempty"`
	// Metadata is what replaces the metadata; an empty object takes it away, null leaves it.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Assignee is the person who looks at it.
	Assignee *string `json:"assignee,omitempty"`
	// IfAssignee is with whom it must be until now, or with the assignee already; empty for no person. Otherwise nothing is
	// changed, and the answer is 409. It goes with Assignee.
	IfAssignee *string `json:"if_assignee,omitempty"`
}

// commentBody is what a person writes about an investigation or a group.
type commentBody struct {
	// Text is what the comment says, at most 16384 bytes of UTF-8.
	Text string `json:"text"`
}

// changeGroupBody is what is written about a group. What is left out stays as it is.
type changeGroupBody struct {
	// Note is free text.
	Note *string `json:"note,omitempty"`
	// Assignee is the person who looks at it.
	Assignee *string `json:"assignee,omitempty"`
	// IfAssignee is with whom it must be until now, or with the assignee already; empty for no person. Otherwise nothing is
	// changed, and the answer is 409. It goes with Assignee.
	IfAssignee *string `json:"if_assignee,omitempty"`
	// Muted is whether the group is muted.
	Muted *bool `json:"muted,omitempty"`
	// MutedUntil is when a muted group becomes ongoing again; without it, it stays muted.
	MutedUntil *time.Time `json:"muted_until,omitempty"`
}

// resolveGroupBody is how the pending investigations of a group are closed.
type resolveGroupBody struct {
	// Status is what they are closed as. Defaults to manually_resolved.
	Status dlq.Status `json:"resolution_status,omitempty"`
	// Notes are for people: why.
	Notes string `json:"resolution_notes,omitempty"`
	// ResolvedBy is the person who closed them.
	ResolvedBy string `json:"resolved_by,omitempty"`
	// Until is a time or a date: investigations that were opened later are left alone. Defaults to now.
	Until json.RawMessage `json:"until,omitempty"`
}

// mergeGroupBody names the group that another is merged into.
type mergeGroupBody struct {
	// Into is the group that stays.
	Into string `json:"into"`
}

// splitGroupBody names the investigations that leave a group.
type splitGroupBody struct {
	// IDs are 1 to 500 investigations of the group.
	IDs []string `json:"ids"`
}

// planBody is an operation to plan.
type planBody struct {
	// Kind is redrive, resolve or purge.
	Kind dlq.OperationKind `json:"kind"`
	// Name is for people. Of the operations that have not ended each has another; 409 says which one has this.
	Name string `json:"name"`
	// Reason is why it is planned.
	Reason string `json:"reason,omitempty"`
	// Scope is what it is about.
	Scope planScope `json:"scope"`
	// Options are how it goes about it.
	Options dlq.OperationOptions `json:"options,omitempty"`
}

// rejoinBody is how a source is led back.
type rejoinBody struct {
	// DryRun is true to change nothing: the answer says what would be done.
	DryRun bool `json:"dry_run,omitempty"`
	// WithoutLetters is true to lead it back also where the desk does not have the dead letters of what the source redrove: what
	// is redriven of them later may be sent twice. Defaults to false: then that is a conflict.
	WithoutLetters bool `json:"without_letters,omitempty"`
}

// commandBody is why an operation is started, paused or resumed.
type commandBody struct {
	// Reason is why, for the audit log and the commands of the operation.
	Reason string `json:"reason,omitempty"`
}

// abortBody is why an operation is aborted, and whether one that has begun is left alone.
type abortBody struct {
	// Reason is why, for the audit log and the commands of the operation.
	Reason string `json:"reason,omitempty"`
	// OnlyPlanned ends the operation only while it is planned. One that was started meanwhile goes on, and the answer is a
	// conflict. Defaults to false.
	OnlyPlanned bool `json:"only_planned,omitempty"`
}

// planScope selects investigations by exactly one of its fields.
type planScope struct {
	// IDs are investigations.
	IDs []string `json:"ids,omitempty"`
	// Group is for the pending investigations of this group.
	Group *uuid.UUID `json:"group,omitempty"`
	// Filter is for the pending investigations that fit, as in GET /dlq; a purge may name another status. What is there must
	// say something: null, an empty text and the uuid that stands for none are refused.
	Filter *api.EntryFilter `json:"filter,omitempty"`
}

// createTaskBody is a task to create.
type createTaskBody struct {
	// Namespace is the namespace of its template.
	Namespace string `json:"namespace_name"`
	// Name is the name of its template.
	Name string `json:"task_name"`
	// Version is the version of its template. Defaults to the highest.
	Version string `json:"version,omitempty"`
	// Context is its input, which fits the template's input_schema.
	Context json.RawMessage `json:"context,omitempty"`
	// Priority is how early it goes: a higher one first. Defaults to 0.
	Priority int `json:"priority,omitempty"`
	// Steps are its steps, in place of the template's.
	Steps json.RawMessage `json:"workflow_steps,omitempty"`
	// IdempotencyKey is a key under which there is one task: a second task under it is the first.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// UUID is the id that the task is to have. Defaults to a new one.
	UUID *uuid.UUID `json:"task_uuid,omitempty"`
}

// retryTasksBody selects tasks that are put back to their beginning, by exactly one of ids, group and filter.
type retryTasksBody struct {
	// IDs are 1 to DLQ_REQUEUE_LIMIT tasks.
	IDs []string `json:"ids,omitempty"`
	// Group is for the tasks behind the pending investigations of this group: what they are about, or what their events belong
	// to. One request takes DLQ_REQUEUE_LIMIT investigations, the oldest first.
	Group *uuid.UUID `json:"group,omitempty"`
	// Filter is for the tasks that fit and that their machines retry from their state. One request takes DLQ_REQUEUE_LIMIT of them. What is
	// there must say something: null and an empty text are refused.
	Filter *api.TaskFilter `json:"filter,omitempty"`
	// After is the next of the answer before, which goes on with the same group or filter.
	After string `json:"after,omitempty"`
	// DryRun is true to change nothing: the answer says what would be.
	DryRun bool `json:"dry_run,omitempty"`
}

// actOnStepBody is what is done with a step by hand.
type actOnStepBody struct {
	// Action is what is done. In a failed task, retry and reset_retry_count take a step from the worker that has it. What
	// depends on a cancelled step follows the template's cancelled_steps.
	Action string `json:"action"`
	// Notes are for people: why.
	Notes string `json:"notes,omitempty"`
	// Results are what complete_manually writes as the results of the step: any JSON.
	Results json.RawMessage `json:"results,omitempty"`
}

// cancelTaskBody is why a task is cancelled.
type cancelTaskBody struct {
	// Notes are for people: why.
	Notes string `json:"notes,omitempty"`
}

// deadLetterTaskBody is why a task is dead-lettered.
type deadLetterTaskBody struct {
	// Reason is why.
	Reason string `json:"reason"`
}

// unflagTaskBody is why a task may go on.
type unflagTaskBody struct {
	// Notes are for people: why. At most 4096 bytes.
	Notes string `json:"notes,omitempty"`
}

// pauseEngineBody is why and how long engines are paused.
type pauseEngineBody struct {
	// Reason is why, at most 4096 bytes. That of a pause that has not ended stays before it.
	Reason string `json:"reason,omitempty"`
	// Seconds is for how long. Defaults to 0: until they are resumed.
	Seconds float64 `json:"for_seconds,omitempty"`
}

// runDetectorBody is what one detection by hand does.
type runDetectorBody struct {
	// DryRun only says what would be done. Defaults to true.
	DryRun *bool `json:"dry_run,omitempty"`
	// BatchSize is how many tasks at most, 1 to 10000. Defaults to 100.
	BatchSize *int `json:"batch_size,omitempty"`
}

// runArchiveBody is what one batch of archiving by hand does.
type runArchiveBody struct {
	// DryRun only counts. Defaults to true.
	DryRun *bool `json:"dry_run,omitempty"`
	// After is the next of the batch before.
	After string `json:"after,omitempty"`
}

// skipEventBody is why an event is given up.
type skipEventBody struct {
	// Reason is why.
	Reason string `json:"reason"`
}

// purgeDeliveredBody says which delivered events are removed.
type purgeDeliveredBody struct {
	// OlderThan is a time or a date: the events acknowledged before.
	OlderThan string `json:"older_than"`
	// Limit is how many events to look at. Defaults to 10000.
	Limit int `json:"limit,omitempty"`
}

// createKeyBody is a key of the API to make.
type createKeyBody struct {
	// Name is whose key it is or what for.
	Name string `json:"name"`
	// Scopes are what it may do.
	Scopes []access.Scope `json:"scopes"`
	// Sources are the sources whose things it sees and acts on, by name: ["*"] is all, and an empty list none. Defaults to all.
	Sources access.Sources `json:"sources,omitempty"`
	// ExpiresIn is after how many seconds it ends by itself; 0 is never.
	ExpiresIn int64 `json:"expires_in_seconds,omitempty"`
}
