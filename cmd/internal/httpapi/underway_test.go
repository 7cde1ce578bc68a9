package httpapi_test

import (
	"encoding/hex"
	"fmt"
	"github.com/postrider/postrider/internal/testenv/outboxtest"
	"strings"
	"testing"
)

// TestWhatIsOnItsWayIsNotClosed: while a redrive is on its way, its outcome is not known. Neither the investigation's own
// PATCH nor the closing of its group closes the investigation, and a refusal changes nothing.
func TestWhatIsOnItsWayIsNotClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	sent, other := r.die(1), r.die(2)
	group := r.ask("GET", "/dlq/"+sent, "").text("group_uuid")
	r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, sent)).is(200)
	before := r.digest()
	for _, status := range []string{"manually_resolved", "permanently_failed", "cancelled"} {
		for _, prefix := range []string{"/v1", "/api/v1"} {
			got := r.askAt(prefix, "PATCH", "/dlq/"+sent, fmt.Sprintf(`{"resolution_status": %q, "resolution_notes": "done"}`, status), "Idempotency-Key", "close it").is(409).
				says("investigation "+sent, "a redrive of it is on its way", "already_queued", "wait")
			if got.Error.Code != "CONFLICT" || got.Error.RequestID == "" {
				t.Errorf("%s", got.Raw)
			}
		}
	}
	if after := r.digest(); after != before {
		t.Errorf("a refusal changed something:\n%s", difference(before, after))
	}
	if got := r.ask("PATCH", "/dlq/"+sent, `{"resolution_notes": "sent again", "assignee": "ann"}`).is(200); got.text("entry", "resolution_status") != "pending" || got.text("entry", "assignee") != "ann" {
		t.Errorf("a note: %s", got.Raw)
	}
	if got := r.ask("POST", "/groups/"+group+"/resolve", `{"resolution_status": "cancelled"}`).is(200); got.at("closed") != 1.0 || got.at("left") != 1.0 {
		t.Errorf("its group: %s", got.Raw)
	}
	for id, want := range map[string]string{sent: "pending", other: "cancelled"} {
		if got := r.ask("GET", "/dlq/"+id, "").text("resolution_status"); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	// It arrives, and is closed by that.
	outboxtest.SettleAll(t, r.pool, outboxtest.Published, outboxtest.Pending, 0)
	if f, err := r.services.Redriver.Follow(t.Context(), 10, true); err != nil || f.Delivered != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	if got := r.ask("GET", "/dlq/"+sent, "").is(200); got.text("resolution_status") != "manually_resolved" || got.text("resolved_by") != "postrider" {
		t.Errorf("%s", got.Raw)
	}
	r.ask("PATCH", "/dlq/"+sent, `{"resolution_status": "cancelled"}`, "Idempotency-Key", "close it").is(409).says("manually_resolved", "by postrider")
}

// TestHeadersOfOperationsAreHidden: a header that the settings hide is hidden in the headers of an operation, too: in every
// answer, also in the answers that are kept for repeated requests, and in the audit log.
func TestHeadersOfOperationsAreHidden(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"dlq.redact_headers": "auth*"})
	id := r.die(1)
	body := fmt.Sprintf(`{"kind": "redrive", "name": "n", "scope": {"ids": [%q]}, "options": {"headers": [["Authorization", "Bearer s3cret"], ["priority", "5"]]}}`, id)
	lacks := func(what, text string) {
		t.Helper()
		for _, secret := range []string{"s3cret", hex.EncodeToString([]byte("s3cret"))} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows what is hidden: %s", what, text)
			}
		}
	}
	hidden := func(a reply) reply {
		t.Helper()
		lacks("the answer", a.Raw)
		for _, want := range []string{`["Authorization","[redacted]"]`, `["priority","5"]`} {
			if !strings.Contains(a.Raw, want) {
				t.Errorf("%s is not in %s", want, a.Raw)
			}
		}
		return a
	}
	at := "/operations/" + hidden(r.ask("POST", "/operations", body, "Idempotency-Key", "plan").is(201)).text("operation_uuid")
	if again := hidden(r.ask("POST", "/operations", body, "Idempotency-Key", "plan").is(201)); again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("it was planned twice: %s", again.Raw)
	}
	for _, step := range []string{"start", "pause", "resume"} {
		hidden(r.ask("POST", at+"/"+step, "").is(200))
	}
	for _, path := range []string{at, "/operations?open=true", "/status"} {
		hidden(r.ask("GET", path, "").is(200))
	}
	lacks("GET /audit", r.ask("GET", "/audit", "").is(200).Raw)
	for _, table := range []string{"access_audit", "access_answer"} {
		lacks(table, value[string](r, `select string_agg(t::text, '|') from postrider.`+table+` t`))
	}
	if n := value[int](r, `select count(*) from postrider.dlq_operation where options->'headers' = '[["Authorization", "Bearer s3cret"], ["priority", "5"]]'`); n != 1 {
		t.Error("what is sent is not what was given")
	}
}
