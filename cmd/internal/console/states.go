package console

import (
	"fmt"
	"reflect"

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
		return stateWords{"failing", "back", "Back again"}
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
	switch word := textAny(s); word {
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
		return stateWords{"quiet", "quiet", "Ended for good"}
	case string(dlq.Completed), "done":
		return stateWords{"fine", "fine", "Done"}
	case "queued", "sent":
		return stateWords{"waiting", "waiting", "On its way"}
	case "delivered":
		return stateWords{"fine", "fine", "Arrived"}
	case "came_back":
		return stateWords{"failing", "back", "Came back"}
	case "waiting":
		return stateWords{"quiet", "quiet", "Waits"}
	case "skipped":
		return stateWords{"quiet", "quiet", "Left alone"}
	case "failed":
		return stateWords{"failing", "failing", "Failed"}
	default:
		return stateWords{"quiet", "quiet", word}
	}
}

// countAny is count of any whole number, or of what a pointer to one points to.
func countAny(n any) string {
	v := reflect.ValueOf(n)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "–"
		}
		v = v.Elem()
	}
	if v.CanInt() {
		return count(v.Int())
	}
	return fmt.Sprint(n)
}

// textAny is what a pointer points to, and nothing for nil.
func textAny(p any) string {
	v := reflect.ValueOf(p)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	if v.Kind() == reflect.Pointer {
		return fmt.Sprint(v.Elem().Interface())
	}
	return fmt.Sprint(p)
}
