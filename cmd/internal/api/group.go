package api

import (
	"cmp"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// Group is the investigations of one cause.
type Group struct {
	// UUID is its identity.
	UUID uuid.UUID `json:"group_uuid"`
	// Fingerprint is what its investigations have in common.
	Fingerprint string `json:"fingerprint"`
	// Version is the rule that made the fingerprint.
	Version int `json:"fingerprint_version"`
	// Parts are what the fingerprint is of.
	Parts dlq.Parts `json:"parts"`
	// Title is a line for people: the words of the error message that are the same in all of its investigations, with … for what
	// varies.
	Title string `json:"title"`
	// Source is the database that all of its investigations are about, by its name; main is the desk's own.
	Source string `json:"source"`
	// Topic is the topic that the messages were bound for or came from.
	Topic *string `json:"topic"`
	// Reason is the error code in small letters, or else the first word of the message.
	Reason string `json:"reason"`
	// State is new, ongoing, regressed, resolved or muted.
	State dlq.GroupState `json:"state"`
	// MutedUntil is when a muted group becomes ongoing again; null is never.
	MutedUntil *time.Time `json:"muted_until"`
	// Total is how many investigations it ever had.
	Total int64 `json:"total"`
	// Entries is how many of them were not purged.
	Entries int64 `json:"entries"`
	// Pending is how many of them are open.
	Pending int64 `json:"pending"`
	// Occurrences counts the letters of the investigations that were not purged.
	Occurrences int64 `json:"occurrences"`
	// FirstSeenAt is when the first of its letters failed.
	FirstSeenAt time.Time `json:"first_seen_at"`
	// LastSeenAt is when the newest of its letters failed.
	LastSeenAt time.Time `json:"last_seen_at"`
	// ResolvedThrough is when it was last resolved; a letter that failed before does not make it regressed.
	ResolvedThrough *time.Time `json:"resolved_through"`
	// LastEntry is its newest investigation; null when all are purged.
	LastEntry *uuid.UUID `json:"last_entry_uuid"`
	// Assignee is the person who looks at it.
	Assignee *string `json:"assignee"`
	// Note is free text.
	Note *string `json:"note"`
	// CreatedAt is when it was opened.
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is when it last changed.
	UpdatedAt time.Time `json:"updated_at"`
	// MergedInto is the group in which its new investigations are opened, after people merged it into that; null otherwise.
	MergedInto *uuid.UUID `json:"merged_into"`
}

// Where is the topic of a group, or its template for tasks, or else the dead-letter topic.
func (g Group) Where() string {
	if g.Topic != nil && *g.Topic != "" {
		return *g.Topic
	}
	return cmp.Or(g.Parts.Template, g.Parts.DLQTopic)
}

// NewGroup is a group as it is shown.
func NewGroup(g dlq.Group) Group {
	return Group{
		UUID: g.UUID, Fingerprint: g.Fingerprint, Version: g.Version, Parts: g.Parts, Title: g.Title, Source: cmp.Or(g.Source, dlq.MainSource), Topic: OrNull(g.Topic), Reason: g.Word,
		State: g.State, MutedUntil: TimeOrNull(g.MutedUntil), Total: g.Total, Entries: g.Entries, Pending: g.Pending, Occurrences: g.Occurrences,
		FirstSeenAt: Time(g.FirstSeenAt), LastSeenAt: Time(g.LastSeenAt), ResolvedThrough: TimeOrNull(g.ResolvedThrough),
		LastEntry: OrNull(g.LastEntryUUID), Assignee: OrNull(g.Assignee), Note: OrNull(g.Note), CreatedAt: Time(g.CreatedAt), UpdatedAt: Time(g.UpdatedAt),
		MergedInto: OrNull(g.MergedInto),
	}
}

// NewGroupList is a page of groups. All of them are counted.
func NewGroupList(found dlq.GroupPage) List[Group] {
	v, exact := ListOf(each(NewGroup, found.Groups), found.Next), true
	v.Total, v.TotalExact = &found.Total, &exact
	return v
}

// GroupDetail is a group with what helps to understand it.
type GroupDetail struct {
	Group
	// Why says, part by part, why its investigations are in one group.
	Why []string `json:"why"`
	// Recommended is the investigation to look at first.
	Recommended *uuid.UUID `json:"recommended_entry_uuid"`
	// Statuses counts its investigations by every status.
	Statuses map[dlq.Status]int64 `json:"statuses"`
	// Hours counts them by the hour in which they were opened, the oldest first, for the last 72 hours.
	Hours []Hour `json:"hours"`
	// Partitions counts the letters of its newest investigations, 200 at most, by where they came from.
	Partitions []Partition `json:"partitions"`
	// Variants are its different messages, the newest first: at most 5, of its newest 200 investigations.
	Variants []Variant `json:"variants"`
	// Related are other groups of its source, of the same error code or topic, that are not resolved, the newest first, 10 at most.
	Related []Group `json:"related"`
}

// Hour is how many investigations were opened in an hour.
type Hour struct {
	// Hour is its beginning.
	Hour time.Time `json:"hour"`
	// Opened is how many were opened.
	Opened int64 `json:"opened"`
}

// Partition is how many letters came from a partition.
type Partition struct {
	// Topic is the topic that the message came from, where the letter says it; otherwise the dead-letter topic.
	Topic string `json:"topic"`
	// Partition is the partition of this topic.
	Partition int32 `json:"partition"`
	// Letters is how many came from it.
	Letters int64 `json:"letters"`
}

// Variant is one of the messages of a group. Messages that differ only in numbers, times and the like are one.
type Variant struct {
	// Message is the error message of its newest investigation, at most 500 characters.
	Message string `json:"message"`
	// Entries is how many of the newest 200 investigations of the group have it.
	Entries int64 `json:"entries"`
	// Newest is its newest investigation.
	Newest uuid.UUID `json:"newest_entry_uuid"`
	// OpenedAt is when that was opened.
	OpenedAt time.Time `json:"opened_at"`
}

// NewGroupDetail is a group with its details as it is shown.
func NewGroupDetail(d dlq.GroupDetail) GroupDetail {
	v := GroupDetail{
		Group: NewGroup(d.Group), Why: append([]string{}, d.Why...), Recommended: OrNull(d.Recommended), Statuses: map[dlq.Status]int64{},
		Hours:      each(func(h dlq.HourCount) Hour { return Hour{Time(h.Hour), h.Opened} }, d.Hours),
		Partitions: each(func(p dlq.PartitionCount) Partition { return Partition(p) }, d.Partitions),
		Variants:   each(func(v dlq.GroupVariant) Variant { return Variant{v.Message, v.Entries, v.Newest, Time(v.OpenedAt)} }, d.Variants),
		Related:    each(NewGroup, d.Related),
	}
	for _, status := range dlq.Statuses() {
		v.Statuses[status] = d.Statuses[status]
	}
	return v
}

// MergedGroup says what merging a group into another did.
type MergedGroup struct {
	// UUID is the group that ended.
	UUID uuid.UUID `json:"group_uuid"`
	// Into is the group that stays.
	Into uuid.UUID `json:"into"`
	// Moved is how many investigations went into the group that stays.
	Moved int64 `json:"moved"`
	// Left is how many are still in the first group; merging again moves them.
	Left int64 `json:"left"`
}

// SplitGroup is a group that investigations were put into when another was split.
type SplitGroup struct {
	// UUID is its identity.
	UUID uuid.UUID `json:"group_uuid"`
	// Title is that of the group.
	Title string `json:"title"`
	// Entries is how many investigations it has now.
	Entries int64 `json:"entries"`
}

// NewSplitGroup is such a group as it is shown.
func NewSplitGroup(g dlq.Group) SplitGroup { return SplitGroup{g.UUID, g.Title, g.Entries} }

// ResolvedGroup says what closing the investigations of a group did.
type ResolvedGroup struct {
	// Closed is how many investigations were closed.
	Closed int `json:"closed"`
	// Left is how many of the investigations meant are still pending. Where there were too many for one call, ask again. An
	// investigation with a redrive on its way is not closed.
	Left int64 `json:"left"`
	// Until is the cut-off time that counted.
	Until time.Time `json:"until"`
}

// NewResolvedGroup is the outcome as it is shown.
func NewResolvedGroup(r dlq.ResolvedGroup) ResolvedGroup {
	return ResolvedGroup{r.Closed, r.Left, Time(r.Until)}
}
