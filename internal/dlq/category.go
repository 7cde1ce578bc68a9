package dlq

import "github.com/postrider/postrider/message"

// Category says in one word what the error of an investigation asks of people; see message.CategoryOf. It
// is told from the reason, which stands for the error's class, and the code, and is empty where they do
// not tell, and for tasks: the letters know their classes themselves.
func (e *Entry) Category() message.Category {
	if e.Subject.Type == SubjectTask {
		return ""
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

// Category says in one word what the error of a letter asks of people; see message.CategoryOf.
func (l *Letter) Category() message.Category { return message.CategoryOf(l.ErrorClass, l.ErrorCode) }
