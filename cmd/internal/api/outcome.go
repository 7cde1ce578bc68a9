package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// Requeued says what became of the investigations whose messages were to be sent again.
type Requeued struct {
	// Requeued are on their way, in the order in which they were named.
	Requeued []uuid.UUID `json:"requeued"`
	// Asked are the ones of these whose source has not answered yet. It is asked until it does; GET /commands has its answer.
	Asked []uuid.UUID `json:"asked"`
	// Skipped are the investigations with which nothing was done, in the same order.
	Skipped []Skipped `json:"skipped"`
	// StoppedTasks are the tasks that the requeued events belong to and that the redrive does not bring back; never null.
	StoppedTasks []StoppedTask `json:"stopped_tasks"`
	// Reaches says whom the messages reach, by the topic that they are sent to.
	Reaches []Reach `json:"reaches"`
	// DryRun says that nothing was sent: this is what would be.
	DryRun bool `json:"dry_run"`
}

// StoppedTask is a task in the dead-letter state of its machine. To send an event of it again leaves it there.
type StoppedTask struct {
	// TaskUUID is the id of the task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// State is the state that it is in.
	State string `json:"state"`
	// Explanation is what brings it back, for people.
	Explanation string `json:"explanation"`
}

// NewStoppedTask is such a task as it is shown.
func NewStoppedTask(t dlq.StoppedTask) StoppedTask {
	return StoppedTask{t.UUID, t.State, fmt.Sprintf("task %s is in %s, and an event that is sent again does not bring it back; postrider task retry %[1]s does, and writes its start event anew", t.UUID, t.State)}
}

// ArchivedTask is a task that was archived. It is not retried any more.
type ArchivedTask struct {
	// TaskUUID is the id of the task.
	TaskUUID uuid.UUID `json:"task_uuid"`
	// State is the state that it is in.
	State string `json:"state"`
	// ArchivedAt is when it was archived.
	ArchivedAt time.Time `json:"archived_at"`
	// InArchive says that it was moved to the archive, where GET /archive/tasks/{id} shows it. Otherwise it is in the archived
	// state of its machine.
	InArchive bool `json:"in_archive"`
	// Explanation is why, for people.
	Explanation string `json:"explanation"`
}

// NewArchivedTask is such a task as it is shown.
func NewArchivedTask(t dlq.ArchivedTask) ArchivedTask {
	why := "task %s is %s, the archived state of its machine; it is not retried any more"
	if t.InArchive {
		why = "task %s, which ended as %s, is in the archive, which is only read"
	}
	return ArchivedTask{t.UUID, t.State, Time(t.At), t.InArchive, fmt.Sprintf(why, t.UUID, t.State)}
}

// Reach says whom messages reach when they are sent to a topic.
type Reach struct {
	// Topic is the topic.
	Topic string `json:"topic"`
	// Messages is how many are sent there.
	Messages int64 `json:"messages"`
	// FailedGroups are the consumer groups that gave them up; none for what the relay gave up.
	FailedGroups []string `json:"failed_groups"`
	// OtherGroups are the other consumer groups that read the topic: groups with committed offsets or members. Null where
	// that is not known.
	OtherGroups *[]string `json:"other_groups"`
	// FailedGroupsAlone says that a group that failed reads the topic, and that no other group is known to read it. False where
	// that is not known, and where a group or a broker gave no answer.
	FailedGroupsAlone bool `json:"failed_groups_alone"`
	// UnaskedGroups are the groups that the brokers could not say it of: each of them may read the topic, too; never null.
	UnaskedGroups []UnaskedGroup `json:"unasked_groups"`
	// Missing says that the topic does not exist: messages for it wait in the outbox until it is created. False where that is
	// not known.
	Missing bool `json:"missing"`
	// Explanation says it for people.
	Explanation string `json:"explanation"`
}

// UnaskedGroup is a consumer group that the brokers could not be asked about.
type UnaskedGroup struct {
	// Group is its name.
	Group string `json:"group"`
	// Explanation is what the brokers said, for people.
	Explanation string `json:"explanation"`
}

// NewReach is a reach as it is shown.
func NewReach(r dlq.Reach) Reach {
	v := Reach{Topic: r.Topic, Messages: r.Messages, FailedGroups: append([]string{}, r.Failed...), Missing: r.Missing,
		UnaskedGroups: each(func(g dlq.UnaskedGroup) UnaskedGroup { return UnaskedGroup{g.Group, g.Why} }, r.Unasked), Explanation: r.Explain()}
	if r.Unknown == "" {
		others := append([]string{}, r.Others...)
		v.OtherGroups = &others
		v.FailedGroupsAlone = len(r.Others) == 0 && r.FailedReads && len(r.Unasked) == 0 && r.Unlisted == 0
	}
	return v
}

// Skipped is an investigation that nothing was done with.
type Skipped struct {
	// ID is the investigation.
	ID uuid.UUID `json:"id"`
	// Reason is why, for programs.
	Reason dlq.SkipReason `json:"reason"`
	// Explanation is why, and what to do, for people.
	Explanation string `json:"explanation"`
}

// NewRequeued is the outcome for the investigations that were named.
func NewRequeued(named []uuid.UUID, done dlq.Requeued) Requeued {
	sent, skipped := map[uuid.UUID]bool{}, map[uuid.UUID]dlq.Skip{}
	for _, id := range done.Entries {
		sent[id] = true
	}
	for _, s := range done.Skipped {
		skipped[s.Entry] = s
	}
	v := Requeued{Requeued: []uuid.UUID{}, Asked: []uuid.UUID{}, Skipped: []Skipped{}, StoppedTasks: each(NewStoppedTask, done.Stopped), Reaches: each(NewReach, done.Reaches)}
	for _, id := range named {
		if sent[id] {
			v.Requeued = append(v.Requeued, id)
			if slices.Contains(done.Asked, id) {
				v.Asked = append(v.Asked, id)
			}
		} else if why, is := skipped[id]; is {
			v.Skipped = append(v.Skipped, Skipped{id, why.Reason, why.Explain()})
		}
	}
	return v
}

// ReleasedKeys says for which investigations keys were let go.
type ReleasedKeys struct {
	// Released are the investigations whose events halted a key that goes on now, and those whose source was asked, in the order in
	// which they were named. They stay open, and their events given up.
	Released []uuid.UUID `json:"released"`
	// Asked are the ones of these whose source has not answered yet. It is asked until it does; GET /commands has its answer.
	Asked []uuid.UUID `json:"asked"`
	// Skipped are the investigations with which nothing was done, in the same order.
	Skipped []Skipped `json:"skipped"`
}

// NewReleasedKeys is the outcome for the investigations that were named.
func NewReleasedKeys(named []uuid.UUID, done dlq.Requeued) ReleasedKeys {
	v := NewRequeued(named, done)
	return ReleasedKeys{v.Requeued, v.Asked, v.Skipped}
}

// Purged says what a purge of investigations did.
type Purged struct {
	// Purged is how many were removed.
	Purged int `json:"purged"`
	// Holding is how many were passed over because they hold a key.
	Holding int `json:"holding"`
	// Left is how many more older_than and the filter select; null where ids were named.
	Left *int64 `json:"left"`
	// LeftExact is whether left was counted, and is no estimate; null where ids were named.
	LeftExact *bool `json:"left_exact"`
}

// NewPurged says what a purge did.
func NewPurged(p dlq.Purge, done dlq.Purged) Purged {
	v := Purged{Purged: done.Entries, Holding: done.Holding}
	if !p.OlderThan.IsZero() {
		v.Left, v.LeftExact = &done.Left, &done.LeftExact
	}
	return v
}

// Fetched says what became of asking for the record that the newest letter of an investigation points to.
type Fetched struct {
	// Entry is the investigation.
	Entry uuid.UUID `json:"dlq_entry_uuid"`
	// LetterID is the letter; null where nothing had to be asked for.
	LetterID *string `json:"letter_id"`
	// State is the outcome, for programs.
	State *dlq.OriginalState `json:"state"`
	// GoneAt is when retention deletes the record from its topic; null where it does not, or that is not known.
	GoneAt *time.Time `json:"gone_at"`
	// Explanation is what it means, and what to do.
	Explanation string `json:"explanation"`
	// Error is what the broker or the client of Kafka said. It is null in the HTTP API: such texts have addresses of brokers.
	Error *string `json:"error"`
}

// NewFetched is the outcome without its error.
func NewFetched(f dlq.Fetched) Fetched {
	return Fetched{Entry: f.Entry, LetterID: OrNull(f.Letter), State: OrNull(f.State), GoneAt: TimeOrNull(f.GoneAt), Explanation: f.Explain()}
}

// ChangedEntry is the answer to a change of an investigation.
type ChangedEntry struct {
	// Success is true: a change that failed is an error.
	Success bool `json:"success"`
	// Message says it for people.
	Message string `json:"message"`
	// UUID is the investigation.
	UUID uuid.UUID `json:"dlq_entry_uuid"`
	// Entry is the investigation as it is now.
	Entry Entry `json:"entry"`
	// Metadata is what it has now for tags, tickets and tools; null for none.
	Metadata json.RawMessage `json:"metadata"`
}

// NewChangedEntry is the answer with the investigation as it is now.
func NewChangedEntry(e dlq.Entry) ChangedEntry {
	return ChangedEntry{true, "Investigation status updated", e.UUID, NewEntry(e), e.Metadata}
}
