package relay

import (
	"testing"

	"github.com/google/uuid"
)

// TestLettersOfATopicThatCannotBe: letters whose topic cannot exist wait under a hold that says so, whole; none is tried
// with less in it, because the topic is the matter.
func TestLettersOfATopicThatCannotBe(t *testing.T) {
	t.Parallel()
	events := []Event{{ID: 7, EventID: uuid.New(), Topic: "t", Payload: []byte("p")}, {ID: 8, EventID: uuid.New(), Topic: "t", Payload: []byte("q")}}
	ls := newLetters(events, func(string) *TopicSettings { return &TopicSettings{DLQTopic: "letters"} })
	ms := ls.messages(func(*Message, int) *Outcome { return nil })
	refused := Outcome{Class: Permanent, Code: "INVALID_TOPIC_EXCEPTION", Message: "no"}
	ls.applyOutcomes(ms, []Outcome{refused, {Class: Withheld}})
	if len(ls.pending) != 0 || ls.fits[0] != whole || len(ls.out.Delivered)+len(ls.out.Postponed)+len(ls.out.Lifted) != 0 || len(ls.out.Holds) != 1 {
		t.Fatalf("%+v, %d are sent again", ls.out, len(ls.pending))
	}
	if h := ls.out.Holds[0]; h.Topic != "letters" || h.Cause != CauseRoute || h.Code != "INVALID_TOPIC_EXCEPTION" || h.Scope != ScopeDeadLetter {
		t.Errorf("the hold is %+v", h)
	}
}
