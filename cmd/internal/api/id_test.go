package api_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
)

// TestParseID: an id has one spelling, and the uuid that stands for none is no id.
func TestParseID(t *testing.T) {
	t.Parallel()
	want := uuid.New()
	for _, text := range []string{want.String(), strings.ToUpper(want.String())} {
		if got, err := api.ParseID(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", uuid.Nil.String(), "{" + want.String() + "}", "urn:uuid:" + want.String(), strings.ReplaceAll(want.String(), "-", ""), want.String()[:35]} {
		if got, err := api.ParseID(text); err == nil || got != uuid.Nil || !strings.Contains(err.Error(), api.WantID) {
			t.Errorf("%q is taken as %s, %v", text, got, err)
		}
	}
}
