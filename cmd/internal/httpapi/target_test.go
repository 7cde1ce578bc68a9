package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
)

// TestATopicByNameNeedsMain: the desk's outbox may write to topics of all sources. So the name of a topic as the target of a
// redrive is taken from keys with the source main alone, whatever else they have, by each route that takes a target; where a
// message came from, and the group that failed, are taken from all.
func TestATopicByNameNeedsMain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	entry := r.record(dlq.Decode(dlqtest.From("orders", dlqtest.Event(1, 1))))
	r.record(dlq.Decode(dlqtest.From("billing", dlqtest.Event(2, 1)))) // the desk knows it
	for who, c := range map[string]struct {
		key string
		may bool
	}{"orders": {r.tenant("orders"), false}, "orders and billing": {r.tenant("orders", "billing"), false},
		"orders and main": {r.tenant("orders", dlq.MainSource), true}, "all": {r.tenant(dlq.AllSources), true}} {
		for _, target := range []string{"orders.elsewhere", "billing.a", "origin", "group"} {
			for _, route := range [][3]string{
				{"GET", "/dlq/" + entry + "/requeue?target=" + target, ""},
				{"POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q], "target": %q, "dry_run": true}`, entry, target)},
				{"POST", "/operations", fmt.Sprintf(`{"kind": "redrive", "name": "%s to %s", "scope": {"ids": [%q]}, "options": {"target": %q}}`, who, target, entry, target)},
			} {
				got := r.ask(route[0], route[1], route[2], "X-API-Key", c.key)
				refused := got.Status == 403 && strings.Contains(got.Raw, "sending to a topic by its name needs the source main")
				if byName := strings.Contains(target, "."); refused != (byName && !c.may) || !refused && got.Status >= 300 {
					t.Errorf("%s, %s %s %s: %d %s", who, route[0], route[1], route[2], got.Status, got.Raw)
				}
			}
		}
		if !c.may {
			r.ask("POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q], "target": "billing.a"}`, entry), "X-API-Key", c.key).is(403)
		}
	}
	if n := value[int](r, `select (select count(*) from postrider.dlq_redrive) + (select count(*) from postrider.dlq_command)`); n != 0 {
		t.Errorf("a refusal left %d rows", n)
	}
}
