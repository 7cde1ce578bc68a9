package message_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// TestValidRedriveOf: an event or the place of a record, in exactly the form that inboxes store.
func TestValidRedriveOf(t *testing.T) {
	t.Parallel()
	const id = "018f2f9e-7c1a-7d3b-9c4d-5e6f708192a3"
	for value, want := range map[string]struct {
		event uuid.UUID
		valid bool
	}{
		"event:" + id:                        {uuid.MustParse(id), true},
		"event:" + strings.ToUpper(id):       {uuid.MustParse(id), false},
		"event:{" + id + "}":                 {uuid.MustParse(id), false},
		"event:":                             {uuid.Nil, false},
		"record:orders/3/17@1700000000000":   {uuid.Nil, true},
		"record:":                            {uuid.Nil, false},
		"record:\xff":                        {uuid.Nil, false},
		"record:" + strings.Repeat("o", 505): {uuid.Nil, true},
		"record:" + strings.Repeat("o", 506): {uuid.Nil, false},
		"replay/" + id:                       {uuid.Nil, false},
		"":                                   {uuid.Nil, false},
	} {
		if event, valid := message.ValidRedriveOf(value); event != want.event || valid != want.valid {
			t.Errorf("ValidRedriveOf(%q) = %s, %v, want %s, %v", value, event, valid, want.event, want.valid)
		}
	}
}

// TestRedriveEventID: each redrive of a record that was no event has the same event id, and other records have others.
func TestRedriveEventID(t *testing.T) {
	t.Parallel()
	first := message.RedriveEventID("record:orders/0/1@2")
	if first == uuid.Nil || first != message.RedriveEventID("record:orders/0/1@2") || first == message.RedriveEventID("record:orders/0/2@2") {
		t.Errorf("%s", first)
	}
	event := uuid.New()
	if got := message.RedriveEventID("event:" + event.String()); got != event {
		t.Errorf("an event: %s, want %s", got, event)
	}
	if got := message.RedriveEventID("other"); got != uuid.Nil {
		t.Errorf("no identity: %s", got)
	}
}
