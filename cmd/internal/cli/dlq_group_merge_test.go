package cli

import (
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
)

// TestMergingAndSplittingByHand: with an operator's rights, groups are merged and split, and the audit log says so.
func TestMergingAndSplittingByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 2)
	entry := d.ask(`select min(dlq_entry_uuid::text) from postrider.dlq_entry`)
	group := d.ask(`select dlq_group_uuid::text from postrider.dlq_entry where dlq_entry_uuid = '` + entry + `'`)
	where := func() string {
		return d.ask(`select dlq_group_uuid::text from postrider.dlq_entry where dlq_entry_uuid = '` + entry + `'`)
	}
	words := func(args ...string) string {
		t.Helper()
		r := postrider(t, []string{"DATABASE_URL=" + d.operator}, append(append([]string{"dlq", "group"}, args...), "-o", "json", "--actor", "ada")...)
		if r.code != ExitOK {
			t.Fatalf("%q: exit code %d, %s", args, r.code, r.stderr)
		}
		return r.stdout
	}
	split := decode[api.List[api.SplitGroup]](t, words("split", group, entry)).Items
	if len(split) != 1 || split[0].Entries != 1 || split[0].UUID.String() != where() || where() == group {
		t.Fatalf("%+v, it is in %s", split, where())
	}
	merged := decode[api.MergedGroup](t, words("merge", split[0].UUID.String(), group))
	if merged.Moved != 1 || merged.Into.String() != group || where() != group {
		t.Errorf("%+v, it is in %s", merged, where())
	}
	d.run(ExitOK, "dlq group split "+group[:35]+" "+entry[:35], split[0].UUID.String())
	d.run(ExitOK, "dlq group merge "+group+" "+split[0].UUID.String(), "1 investigation went there")
	if got := d.ask(`select string_agg(action, ', ' order by access_audit_id) from postrider.access_audit where target_type = 'group'`); got != "group.split, group.merge, group.split, group.merge" {
		t.Errorf("the audit log has %s", got)
	}
	d.run(ExitUsage, "outbox list --task 0198c0ff", "no task has an id that begins with 0198c0ff")
	nowhere := uuid.NewString()
	d.run(ExitFailure, "dlq group merge "+group+" "+nowhere, "group "+nowhere+": not found; postrider dlq groups shows them")
	d.run(ExitFailure, "dlq group split "+group+" "+nowhere, "not found")
	d.run(ExitUsage, "dlq group split "+group, "takes ID INVESTIGATION..., but was given 1")
	d.run(ExitUsage, "dlq group merge "+group+" "+group, "cannot be merged into itself")
}

// TestRootCausesByCommand: the cause that a framework wrapped is in the list and at the head of the investigation.
func TestRootCausesByCommand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 1)
	entry := d.ask(`update postrider.dlq_entry set root_cause = 'x.Duplicate: key 17', root_frame = 'com.acme.Orders.save(Orders.java:9)' returning dlq_entry_uuid::text`)
	d.run(ExitOK, "dlq list --reason duplicate", "x.Duplicate: key 17")
	d.run(ExitOK, "dlq show "+entry, "Root cause", "x.Duplicate: key 17", "Frame", "com.acme.Orders.save(Orders.java:9)")
	d.run(ExitOK, "dlq list -o json", `"root_cause": "x.Duplicate: key 17"`, `"root_frame": "com.acme.Orders.save(Orders.java:9)"`)
}
