package dlq

import "github.com/postrider/postrider/relay/outbox"

// Category says in one word what the error of an investigation asks of people; see outbox.CategoryOf. It
// is told from the reason, which stands for the error's class, and the code, and is empty where they do
// not tell, and for tasks: the letters know their classes themselves.
func (e *Entry) Category() outbox.Category {
	if e.Subject.Type == SubjectTask {
		return ""
	}
	switch e.Reason {
	case MaxRetriesExceeded:
		return outbox.CategoryOf("record", e.ErrorCode)
	case Undeliverable:
		return outbox.CategoryOf("permanent", e.ErrorCode)
	}
	if e.Subject.Type != SubjectEvent {
		return ""
	}
	switch e.Reason {
	case StalenessTimeout:
		return outbox.CategoryOf("infrastructure", e.ErrorCode)
	case ManualDLQ:
		return outbox.CategoryOf("permanent", e.ErrorCode)
	}
	return ""
}

// Category says in one word what the error of a letter asks of people; see outbox.CategoryOf.
func (l *Letter) Category() outbox.Category { return outbox.CategoryOf(l.ErrorClass, l.ErrorCode) }
