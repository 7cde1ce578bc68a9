package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
)

// driveReach asks where the message of an investigation would go, and whom it would reach, in all ways that send nothing.
func (r *rig) driveReach(id string) {
	t := r.t
	t.Helper()
	const want = `[map[explanation:2 groups read %[1]s: billing, mail; no group has had the messages yet failed_groups:[] failed_groups_alone:false messages:1 missing:false other_groups:[billing mail] topic:%[1]s unasked_groups:[]]]`
	before := value[int](r, `select count(*) from postrider.outbox_event`)
	for _, asked := range []struct {
		answer reply
		topic  string
	}{
		{r.ask("GET", "/dlq/"+id+"/requeue", "").is(200), "orders"},
		{r.ask("GET", "/dlq/"+id+"/requeue?target=orders.mended", "").is(200), "orders.mended"},
		{r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q], "dry_run": true}`, id)).is(200), "orders"},
	} {
		if got := fmt.Sprint(asked.answer.at("reaches")); got != fmt.Sprintf(want, asked.topic) || fmt.Sprint(asked.answer.at("requeued")) != "["+id+"]" || asked.answer.at("dry_run") != true {
			t.Errorf("%s", asked.answer.Raw)
		}
	}
	if got := r.ask("GET", "/dlq/"+id+"/requeue?target=group", "").is(200); !strings.Contains(string(got.Raw), "no_retry_topic") {
		t.Errorf("to no group: %s", got.Raw)
	}
	r.ask("GET", "/dlq/"+id+"/requeue?target=__consumer_offsets", "").is(400).says("Kafka keeps for itself")
	r.ask("GET", "/dlq/"+id+"/requeue?target=postrider.lifecycle", "").is(400).says("Postrider itself writes")
	r.ask("GET", "/dlq/"+nowhere+"/requeue", "").is(404)
	if after := value[int](r, `select count(*) from postrider.outbox_event`); after != before {
		t.Errorf("%d events were sent by asking", after-before)
	}
}

// TestAPlannedOperationSaysWhomItReaches: until it begins.
func TestAPlannedOperationSaysWhomItReaches(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.die(1)
	planned := r.ask("POST", "/operations", fmt.Sprintf(`{"kind": "redrive", "name": "n", "scope": {"ids": [%q]}}`, id)).is(201)
	const want = "2 groups read orders: billing, mail; no group has had the messages yet"
	if !strings.Contains(string(planned.Raw), want) {
		t.Errorf("planned: %s", planned.Raw)
	}
	at := "/operations/" + planned.at("operation_uuid").(string)
	if got := r.ask("GET", at, "").is(200); !strings.Contains(string(got.Raw), want) {
		t.Errorf("asked: %s", got.Raw)
	}
	if left := r.ask("POST", at+"/abort", "").is(200).at("reaches").([]any); len(left) != 0 {
		t.Errorf("after its end: %v", left)
	}
}
