package dlq

import (
	"cmp"

	"github.com/postrider/postrider/message"
)

// Category says in one word what the error of an investigation asks of people; see message.CategoryOf. It is the one that
// the first letter names. Otherwise it is told from the reason, which stands for the error's class, and the code, and is
// empty where they do not tell.
func (e *Entry) Category() message.Category {
	if e.ErrorCategory != "" {
		return e.ErrorCategory
	}
	if e.Subject.Type == SubjectTask {
		return e.taskCategory()
	}
	switch e.Reason {
	case MaxRetriesExceeded:
		return message.CategoryOf("record", e.ErrorCode)
	case Undeliverable:
		return message.CategoryOf("permanent", e.ErrorCode)
	}
	if e.Subject.Type != SubjectEvent {
		return ""
	}
	switch e.Reason {
	case StalenessTimeout:
		return message.CategoryOf("infrastructure", e.ErrorCode)
	case ManualDLQ:
		return message.CategoryOf("permanent", e.ErrorCode)
	}
	return ""
}

// codeFailedForGood is the code of a task whose step failed and is not to be tried again.
const codeFailedForGood = "FAILED_FOR_GOOD"

// taskCategory is the category of a task that got stuck: validation if its own steps forbid that it ever ends, transient
// if the same step may succeed later, fatal if a person or a step said that it will not.
func (e *Entry) taskCategory() message.Category {
	switch e.Reason {
	case DependencyCycleDetected:
		return message.Validation
	case StalenessTimeout, WorkerUnavailable:
		return message.Transient
	case MaxRetriesExceeded:
		if e.ErrorCode == codeFailedForGood {
			return message.Fatal
		}
		return message.Transient
	case ManualDLQ, Undeliverable:
		return message.Fatal
	}
	return ""
}

// Category says in one word what the error of a letter asks of people: the category that it names, or that of its class and
// code (message.CategoryOf).
func (l *Letter) Category() message.Category {
	return cmp.Or(l.ErrorCategory, message.CategoryOf(l.ErrorClass, l.ErrorCode))
}
