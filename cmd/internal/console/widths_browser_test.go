package console_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestWidthsInABrowser: with texts of usual length no table reaches into the margin of its page, also beside the rail in a window
// that is just wide enough for it. A state and a key stay whole, no field of a filter stands alone, and the mark of the row that the
// keys have reached lies on nothing.
func TestWidthsInABrowser(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.silentStreams.Store(true)
	var entry string
	for n := range 4 {
		entry = r.die(n+1, func(l *dlq.Letter) {
			l.OriginTopic, l.ErrorCode = "billing.invoices", fmt.Sprint("TOTAL_IS_NOT_THE_SUM_", n%2)
			l.ErrorMessage = "the invoice cannot be booked: its total is not the sum of its lines"
		})
	}
	admin := r.as(access.Admin)
	admin.post("/causes/"+r.group(entry)+"/change", "what", "assign", "assignee", "ann.of.billing@example.com")
	admin.post("/investigations/" + entry + "/send")
	pgtest.Exec(t, r.pool, `update postrider.dlq_entry set resolution_status = 'manually_resolved', resolution_timestamp = now(), resolved_by = 'ann' where dlq_entry_uuid = $1::uuid`, entry)
	pgtest.Exec(t, r.pool, `update postrider.dlq_group set state = 'regressed', first_seen_at = now() - interval '2 days', last_seen_at = now() - interval '1 day'`)
	ledgertest.Apply(t, r.pool, ledgertest.Template{Namespace: "demo", Name: "ship_order", Configuration: `{"steps": [{"name": "hand_over", "max_retries": 0}]}`})
	for n := range 2 { // one fails, and one goes on
		step := ledgertest.Steps(t, r.pool, ledgertest.Create(t, r.pool, ledgertest.New{Namespace: "demo", Name: "ship_order", Context: fmt.Sprintf(`{"n": %d}`, n)}))["hand_over"].UUID
		pgtest.Exec(t, r.pool, `select postrider.enqueue_step($1)`, step)
		pgtest.Exec(t, r.pool, `select postrider.start_step($1, 'worker')`, step)
		if n == 0 {
			pgtest.Exec(t, r.pool, `select postrider.fail_step($1, 'the carrier did not answer in 30 seconds, and the worker has given it up for now')`, step)
		}
	}
	admin.until("/", "Reopened")
	b := r.tab(t, access.Admin)
	const (
		wide   = `[...document.querySelectorAll("main table")].some(t => { const m = document.querySelector("main"); return t.getBoundingClientRect().right > m.getBoundingClientRect().right - parseFloat(getComputedStyle(m).paddingRight) + 1; })`
		whole  = `[...document.querySelectorAll("td.unbroken bdi, td .sub.id bdi")].every(e => e.getClientRects().length === 1)`
		paired = `document.querySelector("[name=to]") === null || Math.abs(document.querySelector("[name=to]").getBoundingClientRect().top - document.querySelector("[name=from]").getBoundingClientRect().top) < 4`
		apart  = `[...document.querySelectorAll("td.pick input")].every(e => e.closest("tr").querySelector(".state").getBoundingClientRect().left - e.getBoundingClientRect().right > 6)`
	)
	for name, page := range map[string]string{"now": "/", "causes": "/causes", "investigations": "/investigations", "closed": "/investigations?resolution_status=manually_resolved", "tasks": "/tasks", "audit": "/audit"} {
		b.do(chromedp.Navigate(r.URL + page))
		b.until("document.querySelector('h1') !== null && document.readyState === 'complete'")
		b.do(chromedp.KeyEvent("j"))
		for _, width := range []int64{1280, 1152, 1000, 900, 768} {
			b.look(width, "light")
			if evaluate[bool](b, wide) {
				t.Errorf("%s at %d: a table reaches into the margin", name, width)
			}
			for _, fine := range []string{whole, paired, apart} {
				if !evaluate[bool](b, fine) {
					t.Errorf("%s at %d is careless: not %s", name, width, fine)
				}
			}
			b.shoot(fmt.Sprintf("widths-%s-%d", name, width))
		}
	}
}
