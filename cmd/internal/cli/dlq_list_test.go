package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestListByHand: by either time, from either end, page by page, and by every filter.
func TestListByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 4)
	e := d.entries
	pgtest.Exec(t, d.db.Conn(t), `update postrider.dlq_entry set assignee = 'ann', updated_at = now() + interval '1 minute' where dlq_entry_uuid = $1`, e[0])
	list := func(flags string) (v api.EntryList, ids []string) {
		t.Helper()
		v = decode[api.EntryList](t, d.run(ExitOK, strings.TrimSpace("dlq list -o json "+flags)))
		for _, one := range v.Items {
			ids = append(ids, one.ID)
		}
		return v, ids
	}
	group := d.ask(`select distinct dlq_group_uuid::text from postrider.dlq_entry`)
	event := d.ask(`select subject_id from postrider.dlq_entry where dlq_entry_uuid = '` + e[2] + `'`)
	newest := []string{e[3], e[2], e[1], e[0]}
	for flags, want := range map[string][]string{
		"":                                          newest,
		"--ascending":                               e,
		"--order-by updated_at":                     {e[0], e[3], e[2], e[1]},
		"--order-by updated_at --ascending":         {e[1], e[2], e[3], e[0]},
		"--ascending --limit 2 --offset 1":          {e[1], e[2]},
		"--assignee ann":                            {e[0]},
		"--code INVALID_RECORD --reason GOOD":       newest,
		"--code OTHER":                              nil,
		"--reason bad":                              nil,
		"--group " + group:                          newest,
		"--group " + uuid.NewString():               nil,
		"--subject-type event":                      newest,
		"--subject-type record":                     nil,
		"--subject-id " + event:                     {e[2]},
		"--from 1h --to 0s --status pending":        newest,
		"--from 0s":                                 nil,
		"--from 2026-01-01":                         newest,
		"--to 2020-01-01T00:00:00Z":                 nil,
		"--topic orders --dlq-reason undeliverable": newest,
	} {
		v, got := list(flags)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", flags, got, want)
		}
		if !strings.Contains(flags, "--limit") && (*v.Total != int64(len(want)) || !*v.TotalExact || v.Next != nil) {
			t.Errorf("%s: %+v", flags, v)
		}
	}
	// Page by page.
	for _, order := range []string{"--ascending", "--order-by updated_at"} {
		_, want := list(order)
		var got []string
		for after := ""; ; {
			v, page := list(order + " --limit 3" + after)
			if got = append(got, page...); v.Next == nil {
				break
			}
			d.run(ExitOK, "dlq list "+order+" --limit 3"+after, "1 to 3 of 4", "--after "+*v.Next)
			after = " --after " + *v.Next
			d.run(ExitUsage, "dlq list --limit 3"+after, "another order")
			d.run(ExitUsage, "dlq list "+order+" --offset 1"+after, "after or an offset")
			d.run(ExitOK, "dlq list "+order+" --limit 3"+after, "The last 1 of 4.")
		}
		if !slices.Equal(got, want) || len(want) != 4 {
			t.Errorf("%s: %v, want %v", order, got, want)
		}
	}
	d.run(ExitOK, "dlq list", "OPENED", "LAST")
	d.run(ExitOK, "dlq list --order-by updated_at", "OPENED", "CHANGED")
	for flags, want := range map[string]string{
		"--order-by size": "--order-by is", "--subject-type x": "--subject-type is", "--group x": "--group is", "--from yesterday": `--from is "yesterday"; it must be a date (2026-01-31) or a time (2026-01-31T08:00:00Z), or how long ago, such as 36h or 30d`,
		"--to x": "--to is", "--offset 100001": "--after goes further", "--from 1h --to 2h": "from is after to", "--after x": "next",
		"--status open": "--status is", "--dlq-reason x": "--dlq-reason is", "--limit 0": "--limit is 0",
	} {
		d.run(ExitUsage, "dlq list "+flags, want)
	}
}

// TestAListThatIsNotCompleteSaysSo: no match among the investigations that were looked at is not no match at all.
func TestAListThatIsNotCompleteSaysSo(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]dlq.Page{
		"none": {Incomplete: true, Next: "here"},
		"one":  {Incomplete: true, Next: "here", Entries: []dlq.Entry{{ErrorMessage: "in NL"}}, Total: 5},
	} {
		var shown bytes.Buffer
		s := dlq.Search{Filter: dlq.Filter{Message: "NL", Limit: 25}, After: map[string]string{"one": "there"}[name]}
		if err := entryTable(&shown, api.NewEntryList(page, s.Filter), s); err != nil {
			t.Fatal(err)
		}
		if out := shown.String(); !strings.Contains(out, "in the 10000 that were looked at") || !strings.Contains(out, "--after here") || strings.Contains(out, "There are no such") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// TestStatusText: what closed by itself is not said to have been closed by hand.
func TestStatusText(t *testing.T) {
	t.Parallel()
	for by, want := range map[string]string{"postrider": "manually_resolved (by itself)", "cli:postrider (ada)": "manually_resolved", "": "manually_resolved"} {
		if got := statusText(dlq.ManuallyResolved, by); got != want {
			t.Errorf("closed by %q it is %q, want %q", by, got, want)
		}
	}
	if got := statusText(dlq.Pending, "postrider"); got != "pending" {
		t.Errorf("what is open is %q", got)
	}
	if got := stateColour([]string{"STATUS"})(0, "manually_resolved (by itself)"); got != "32" {
		t.Errorf("its colour is %q", got)
	}
}
