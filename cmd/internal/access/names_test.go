package access

import (
	"strings"
	"testing"
)

// TestMisleadingCharacters: a name may have none of the characters that pages escape, and no line end; a text of several lines may
// have line ends.
func TestMisleadingCharacters(t *testing.T) {
	t.Parallel()
	for _, r := range "\x00\x1b\u007f\u00ad\u061c\u200b\u200d\u200e\u2028\u202e\u2060\u2066\ufeff\ufff9\U000e0041\ue000" {
		if !Misleading(r) || !Misleads("ann"+string(r)) || nameFault("ann"+string(r)) == "" {
			t.Errorf("%U is taken for harmless", r)
		}
	}
	for _, r := range "a ä中🙂\u0301" {
		if Misleading(r) || Misleads("ann"+string(r)) {
			t.Errorf("%U is taken for misleading", r)
		}
	}
	for _, r := range "\n\t" {
		if Misleading(r) || !Misleads("ann"+string(r)) || !strings.Contains(nameFault("ann"+string(r)), "control characters") {
			t.Errorf("%U belongs into texts, and not into names", r)
		}
	}
}
