package dlq

import (
	"testing"

	"github.com/postrider/postrider/message"
)

// An investigation says what the letter said that opened it.
func TestCategory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class, code string
		want        message.Category
	}{
		{"permanent", "MESSAGE_TOO_LARGE", message.Validation},
		{"permanent", "INVALID_HEADERS", message.Validation},
		{"permanent", "WORKER_KILLED", message.Fatal},
		{"record", "POLICY_VIOLATION", message.Transient},
		{"infrastructure", "MAX_AGE_EXCEEDED", message.Transient},
		{"route", "UNKNOWN_TOPIC_OR_PARTITION", message.Transient},
		{"permanent", message.CodeSkipped, message.Fatal},
		{"of a program", "MESSAGE_TOO_LARGE", ""},
		{"", "", ""},
	} {
		l := Letter{ErrorClass: c.class, ErrorCode: c.code, Reason: reasonOf(c.class, c.code)}
		e := Entry{Subject: Subject{Type: SubjectEvent}, Reason: l.Reason, ErrorCode: l.ErrorCode}
		if l.Category() != c.want || e.Category() != c.want {
			t.Errorf("%+v: the letter says %q, the investigation %q", c, l.Category(), e.Category())
		}
	}
	for _, named := range message.Categories() { // goes before what class and code say
		l := Letter{ErrorClass: "permanent", ErrorCode: "HANDLER_FAILED", ErrorCategory: named}
		e := Entry{Subject: Subject{Type: SubjectRecord}, Reason: Undeliverable, ErrorCode: l.ErrorCode, ErrorCategory: named}
		if l.Category() != named || e.Category() != named {
			t.Errorf("%s: the letter says %q, the investigation %q", named, l.Category(), e.Category())
		}
	}
	for _, c := range []struct {
		reason Reason
		code   string
		want   message.Category
	}{
		{StalenessTimeout, "", message.Transient},
		{WorkerUnavailable, "", message.Transient},
		{MaxRetriesExceeded, "MAX_RETRIES_EXCEEDED", message.Transient},
		{MaxRetriesExceeded, "FAILED_FOR_GOOD", message.Fatal},
		{DependencyCycleDetected, "DEPENDENCY_CYCLE_DETECTED", message.Validation},
		{ManualDLQ, "MANUAL_DLQ", message.Fatal},
		{Unclassified, "", ""},
	} {
		if e := (&Entry{Subject: Subject{Type: SubjectTask}, Reason: c.reason, ErrorCode: c.code}); e.Category() != c.want {
			t.Errorf("a task with the reason %s and the code %q has the category %q, want %q", c.reason, c.code, e.Category(), c.want)
		}
	}
}
