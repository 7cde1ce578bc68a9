package httpapi_test

import (
	"fmt"
	"strings"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// driveCommands: investigations of another source are redriven and closed by commands, which the API shows; a source that has not
// answered is said to be asked, and then to be away.
func (r *rig) driveCommands() {
	t := r.t
	of := func(n int) string { return r.record(dlq.Decode(dlqtest.From("orders", dlqtest.Event(n, 1)))) }
	id, closed := of(900), of(901)
	sent := r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, id)).is(200)
	if got := fmt.Sprint(sent.at("requeued"), sent.at("asked"), sent.at("skipped")); got != fmt.Sprintf("[%[1]s] [%[1]s] []", id) {
		t.Errorf("%s", sent.Raw)
	}
	r.ask("PATCH", "/dlq/"+id, `{"resolution_status": "cancelled"}`).is(409) // it is on its way
	r.ask("PATCH", "/dlq/"+closed, `{"resolution_status": "cancelled"}`).is(200)
	kinds := func(query string, want ...string) reply {
		t.Helper()
		list := r.ask("GET", "/commands?"+query, "").is(200)
		var got []string
		for _, one := range list.at("items").([]any) {
			c := one.(map[string]any)
			got = append(got, fmt.Sprintf("%v %v %v", c["kind"], c["entry_id"], c["state"]))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %s", query, list.Raw)
		}
		return list
	}
	newest := kinds("source=orders&page_size=1", "close "+closed+" waiting")
	kinds("source=orders&after="+newest.text("next"), "redrive "+id+" waiting")
	kinds("source=billing")
	kinds("source=orders&state=answered")
	r.exec(`update postrider.dlq_command set created_at = now() - interval '1 minute'`)
	away := r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, of(902))).is(200)
	if len(away.at("requeued").([]any)) != 0 || !strings.Contains(string(away.Raw), `"reason":"source_away","explanation":"the source orders has answered nothing since 20`) {
		t.Errorf("%s", away.Raw)
	}
	r.exec(`update postrider.dlq_command set answered_at = now(), answer = 'refused', detail = 'too odd' where kind = 'redrive'`)
	if list := kinds("state=answered", "redrive "+id+" answered"); !strings.Contains(string(list.Raw), `"answer":"refused","detail":"too odd"`) {
		t.Errorf("%s", list.Raw)
	}
	for query, says := range map[string]string{"state=gone": "waiting, answered", "source=O": "name of a source", "after=x": "after", "page_size=0": "page_size", "kind=close": "kind"} {
		r.ask("GET", "/commands?"+query, "").is(400).says(says)
	}
}
