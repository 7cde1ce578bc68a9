package message

import (
	"errors"
	"fmt"
)

// ErrInvalid is wrapped by every error about an event that a writer must correct.
var ErrInvalid = errors.New("invalid outbox event")

// ValidTopic returns an error wrapping ErrInvalid unless name is a Kafka topic name: 1 to 249 letters,
// digits, dots, underscores and hyphens, and neither "." nor ".." (Kafka's own rule, Topic.validate).
func ValidTopic(name string) error {
	bad := len(name) == 0 || len(name) > 249 || name == "." || name == ".."
	for i := 0; i < len(name) && !bad; i++ {
		c := name[i]
		bad = !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
	}
	if bad {
		if len(name) > 260 {
			name = name[:260] + "…"
		}
		return fmt.Errorf("%w: topic %q is not a Kafka topic name: use 1 to 249 letters, digits, dots, underscores and hyphens, and not \".\" or \"..\"", ErrInvalid, name)
	}
	return nil
}
