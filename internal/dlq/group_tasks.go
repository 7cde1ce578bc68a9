package dlq

import "github.com/google/uuid"

// GroupTasks asks for a page of the tasks behind the pending investigations of a group: what they are about, or what their
// events belong to.
type GroupTasks struct {
	// Group is the group. Required.
	Group uuid.UUID
	// After is the Next of the page before. Defaults to the beginning.
	After string
	// Limit is how many investigations are looked at, at most MaxGroupTasks. Required.
	Limit int
}

// MaxGroupTasks is the most that GroupTasks.Limit may be.
const MaxGroupTasks = 10_000

// GroupTasksPage is a page of the tasks of a group.
type GroupTasksPage struct {
	// Tasks are the tasks, each once, in the order in which their investigations were opened. A page whose investigations have
	// no task is empty, and another may follow it.
	Tasks []uuid.UUID
	// Next goes into GroupTasks.After for the page that follows; empty on the last. All pages have the investigations that
	// were opened before the first was asked for.
	Next string
}
