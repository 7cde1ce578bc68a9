package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	b := r.as(access.Read)
	pgtest.Exec(t, r.pool, `delete from postrider.tasker_named_tasks`)
	b.get("/tasks/templates").is(t, http.StatusOK).has(t, "There is no template of tasks.", "postrider template apply", `aria-current="page">Tasks`)
	ledgertest.Apply(t, r.pool, ledgertest.Template{Namespace: "sales", Name: "ship_order", Version: "1.0.0", Configuration: `{"name": "ship_order", "steps": [{"name": "pick", "handler": {"name": "<i>Picker"}, "max_retries": 5, "retry_base_seconds": 2},
		{"name": "pack", "dependencies": ["pick"], "handler": "pack.it"}, {"name": "label", "dependencies": ["pick"]}, {"name": "send", "dependencies": ["pack", "label"]}],
		"lifecycle": {"max_duration_minutes": 90, "max_waiting_for_retry_minutes": 7, "staleness_action": "manual_review"}}`})
	ledgertest.Apply(t, r.pool, ledgertest.Template{Namespace: "sales", Name: "ship_order", Version: "2.0.0", Configuration: `{"name": "ship_order"}`})
	b.get("/tasks/templates").is(t, http.StatusOK).has(t, "2 templates of tasks.", "sales/ship_order", "/tasks/templates/sales/ship_order?version=1.0.0")
	b.get("/tasks/templates/sales/ship_order?version=1.0.0").is(t, http.StatusOK).has(t, "has 4 steps.", "pick, then pack and label, then send", "&lt;i&gt;Picker", "pack.it", "5, after 2 s to 60 s",
		"90 minutes", "waiting for retry", "7 minutes", "manual_review", "version=2.0.0", "/tasks?name=ship_order&amp;namespace=sales&amp;version=1.0.0", `class="graph"`)
	newest := b.get("/tasks/templates/sales/ship_order").is(t, http.StatusOK).has(t, "has 0 steps.", "It has no steps.", "2.0.0")
	if strings.Contains(newest.text, `class="graph"`) {
		t.Error("there is a picture of no steps")
	}
	b.get("/tasks/templates/sales/odd").is(t, http.StatusNotFound).has(t, "There is nothing here.")
	b.get("/tasks/templates/sales/ship_order?version=9.9.9").is(t, http.StatusNotFound)
	b.get("/tasks/templates?namespace=nowhere").is(t, http.StatusOK).has(t, "No template matches.", "Clear the filter")

	var steps []string
	for i := range 250 {
		steps = append(steps, fmt.Sprintf(`{"name": "s%d"}`, i))
	}
	for n := range 120 {
		ledgertest.Apply(t, r.pool, ledgertest.Template{Namespace: "many", Name: fmt.Sprintf("t%03d", n), Configuration: `{"steps": [` + strings.Join(steps, ",") + `]}`})
	}
	page := b.get("/tasks/templates?namespace=many").is(t, http.StatusOK).has(t, "120 templates", "from=50", "More")
	if n := strings.Count(page.text, `<tr role="row" data-row`); n != 50 || len(page.text) > 60_000 {
		t.Errorf("%d templates on a page of %d bytes", n, len(page.text))
	}
	b.get("/tasks/templates?namespace=many&from=100").is(t, http.StatusOK).has(t, "t119", "First page")
	whole := b.get("/tasks/templates/many/t000").is(t, http.StatusOK).has(t, "has 250 steps.", "250 steps", "More steps", "from=100")
	if n := strings.Count(whole.text, `<tr role="row" data-row`); n != 100 {
		t.Errorf("%d steps on a page", n)
	}
	b.get("/tasks/templates/many/t000?from=200").is(t, http.StatusOK).has(t, "s249", "First steps")
}
