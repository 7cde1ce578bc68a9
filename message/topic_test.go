package message

import (
	"errors"
	"strings"
	"testing"
)

func TestValidTopic(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"orders": true, "a": true, "Orders_2.retry-1": true, "...": true, strings.Repeat("x", 249): true,
		"": false, ".": false, "..": false, strings.Repeat("x", 250): false, "a b": false, "a/b": false, "ä": false, "a\x00": false, "a\n": false,
	} {
		err := ValidTopic(name)
		if (err == nil) != valid || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := ValidTopic(strings.Repeat("y", 1<<20)); err == nil || len(err.Error()) > 600 {
		t.Error("the error repeats a topic's name of a megabyte")
	}
}
