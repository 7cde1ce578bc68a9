package console_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
)

// TestAPlanOfTooLargeMessagesWarns before anything is sent: on its form, on its page, on the page of its cause, and on the page of
// one of them, which is sent without a plan. Once it is
// started, and for other messages, nothing is said.
func TestAPlanOfTooLargeMessagesWarns(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	tooLarge := func(l *dlq.Letter) {
		l.ErrorCode, l.ErrorClass = "MESSAGE_TOO_LARGE", "permanent"
		l.ErrorMessage = "the record is 1200000 bytes, the limit is 1048588 (kafka max_message_bytes)"
	}
	entry := r.die(1, tooLarge)
	r.die(2, tooLarge)
	small := r.die(3, nil)
	group := r.group(entry)
	b := r.as(access.Admin)
	const two = "2 were too large for orders, and fail again unless it takes larger messages by now: raise kafka.max_message_bytes"
	const one = "1 was too large for orders, and fails again unless"
	b.get("/plan?kind=redrive&group="+group).is(t, http.StatusOK).has(t, two)
	b.get("/plan?kind=redrive&id="+entry).is(t, http.StatusOK).has(t, one)
	b.get("/plan?kind=redrive&id="+entry+"&target=large-orders").is(t, http.StatusOK).has(t, "fails again unless large-orders takes larger messages")
	refused := b.post("/plan", "kind", "redrive", "id", entry, "name", "x", "canary", "", "rate", "", "target", "no such topic !!").is(t, http.StatusSeeOther).header.Get("Location")
	b.get(refused).is(t, http.StatusOK).has(t, "<p>Topic &#34;no such topic !!&#34; is not a Kafka topic name", `value="no such topic !!"`).lacks(t, "takes larger messages")
	b.get("/plan?kind=resolve&group="+group).is(t, http.StatusOK).lacks(t, "too large for orders")
	b.get("/plan?kind=redrive&id="+small).is(t, http.StatusOK).lacks(t, "too large for")
	b.get("/investigations/"+entry).is(t, http.StatusOK).has(t, "Send it again</button>", "This message was too large for orders, and fails again unless it takes larger messages by now: raise kafka.max_message_bytes")
	b.get("/investigations/"+small).is(t, http.StatusOK).lacks(t, "too large for")
	plan := func(scope ...string) string {
		t.Helper()
		return b.post("/plan", append([]string{"kind", "redrive", "canary", ""}, scope...)...).is(t, http.StatusSeeOther).header.Get("Location")
	}
	all := plan("name", "all", "group", group)
	b.get(all).is(t, http.StatusOK).has(t, two, "Send 2 messages</button>")
	b.get("/causes/"+group).is(t, http.StatusOK).has(t, two)
	b.get(plan("name", "mixed", "id", entry, "id", small)).is(t, http.StatusOK).has(t, one)
	b.get(plan("name", "small", "id", small)).is(t, http.StatusOK).lacks(t, "too large for")
	b.post(all+"/start").is(t, http.StatusSeeOther)
	b.get(all).is(t, http.StatusOK).lacks(t, "too large for orders")
}
