package message

import (
	"slices"
	"testing"
)

func TestCategoryOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class, code string
		want        Category
	}{
		{"", "", ""},
		{"", "MESSAGE_TOO_LARGE", ""},
		{"delivered", "", ""},
		{"com.example.Oops", "INVALID_RECORD", ""},
		{"Permanent", "INVALID_RECORD", ""},
		{"infrastructure", "NOT_LEADER_OR_FOLLOWER", Transient},
		{"infrastructure", "UNKNOWN_OUTCOME", Transient},
		{"infrastructure", "", Transient},
		{"route", "UNKNOWN_TOPIC_OR_PARTITION", Transient},
		{"route", "TOPIC_AUTHORIZATION_FAILED", Transient},
		{"record", "POLICY_VIOLATION", Transient},
		{"record", "INVALID_RECORD", Transient},
		{"retry", "CORRUPT_MESSAGE", Transient},
		{"withheld", "", Transient},
		{"permanent", "MESSAGE_TOO_LARGE", Validation},
		{"permanent", "RECORD_LIST_TOO_LARGE", Validation},
		{"permanent", "INVALID_RECORD", Validation},
		{"permanent", "INVALID_HEADERS", Validation},
		{"permanent", "UNDECODABLE", Validation},
		{"permanent", "INVALID_TOPIC", Validation},
		{"permanent", "INVALID_TOPIC_EXCEPTION", Validation},
		{"redrive", "", Transient},
		{"halted", "INVALID_RECORD", Fatal},
		{"circuit_breaker", "INVALID_RECORD", Fatal},
		{"permanent", "WORKER_KILLED", Fatal},
		{"permanent", "SOMETHING_NEW", Fatal},
		{"permanent", "", Fatal},
	} {
		got := CategoryOf(c.class, c.code)
		if got != c.want {
			t.Errorf("class %q, code %q: %q, want %q", c.class, c.code, got, c.want)
		}
		if got != "" && !slices.Contains(Categories(), got) {
			t.Errorf("%q is not among the categories", got)
		}
	}
}
