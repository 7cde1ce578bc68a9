package console

import (
	"github.com/postrider/postrider/internal/dlq"
)

// stateWords are the mark and the word of a state.
type stateWords struct{ Mark, Icon, Word string }

// groupWords are the mark and the word of a group's state.
func groupWords(s dlq.GroupState) stateWords {
	switch s {
	case dlq.GroupNew:
		return stateWords{"failing", "failing", "New"}
	case dlq.GroupRegressed:
		return stateWords{"failing", "back", "Reopened"}
	case dlq.GroupOngoing:
		return stateWords{"waiting", "waiting", "Ongoing"}
	case dlq.GroupResolved:
		return stateWords{"fine", "fine", "Resolved"}
	case dlq.GroupMuted:
		return stateWords{"quiet", "quiet", "Muted"}
	}
	return stateWords{"quiet", "quiet", string(s)}
}

// statusWords are the mark and the word of the state of an investigation, a redrive, an operation or an item.
func statusWords(s any) stateWords {
	switch word := text(s); word {
	case string(dlq.Pending):
		return stateWords{"failing", "failing", "Open"}
	case string(dlq.ManuallyResolved):
		return stateWords{"fine", "fine", "Resolved"}
	case string(dlq.PermanentlyFailed):
		return stateWords{"quiet", "quiet", "Failed for good"}
	case string(dlq.Cancelled):
		return stateWords{"quiet", "quiet", "Cancelled"}
	case string(dlq.Planned):
		return stateWords{"quiet", "quiet", "Planned"}
	case string(dlq.Canary):
		return stateWords{"waiting", "waiting", "Canary"}
	case string(dlq.Running):
		return stateWords{"waiting", "waiting", "Running"}
	case string(dlq.Paused):
		return stateWords{"held", "held", "Halted by a person"}
	case string(dlq.Halted):
		return stateWords{"held", "held", "Halted by itself"}
	case string(dlq.Aborted):
		return stateWords{"quiet", "quiet", "Ended"}
	case string(dlq.Completed), "done":
		return stateWords{"fine", "fine", "Done"}
	case "queued", "sent":
		return stateWords{"waiting", "waiting", "On its way"}
	case "delivered":
		return stateWords{"fine", "fine", "Arrived"}
	case "came_back":
		return stateWords{"failing", "back", "Failed again"}
	case "waiting":
		return stateWords{"quiet", "quiet", "Waits"}
	case "skipped":
		return stateWords{"quiet", "quiet", "Skipped"}
	case "failed":
		return stateWords{"failing", "failing", "Failed"}
	default:
		return stateWords{"quiet", "quiet", word}
	}
}

// whySkipped is why an investigation was skipped, with what to do about it here; the words for commands are dlq's.
func whySkipped(r dlq.SkipReason) string {
	switch r {
	case dlq.PayloadGone:
		return "Its dead letter only refers to its message, which is not there: ask the brokers for it."
	case dlq.HaltsKey, dlq.OnlyCopy:
		return "It halts its key: send it to its own topic, or let the key go on without it."
	case dlq.UnreadableHeaders:
		return "Some of its headers cannot be read: plan a redrive, and say in the plan what is sent instead."
	case dlq.TooManyHops:
		return "Its message was sent again as often as it may be, and became a dead letter each time: find out why first."
	case dlq.NoTarget, dlq.NoRetryTopic:
		return "Its dead letter does not say where to send it: plan a redrive, and name a topic in the plan."
	case dlq.KeyHalted:
		return "Another event halts its key: send that one again first, or give it up."
	case dlq.Busy:
		return "The relay has its key in work: try again."
	case dlq.HoldsKey:
		return "It holds a key: send it again, or close it."
	}
	return sentence(r.Explain())
}

// wayName is what a tab calls a way to show a payload.
func wayName(way string) string {
	switch way {
	case "json":
		return "JSON"
	case "hex":
		return "Hex"
	}
	return "Text"
}
