package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
)

// TestCommentsByHand: with an operator's rights a person comments on a group and on an investigation, and deletes what that
// person wrote, and nothing else.
func TestCommentsByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 1)
	group := decode[api.List[api.Group]](t, d.run(ExitOK, "dlq groups -o json")).Items[0]
	d.run(ExitUsage, "dlq comment", "takes ID [TEXT], but was given 0 arguments; write: postrider dlq comment ID [TEXT]")
	for command, id := range map[string]string{"dlq group comment": group.UUID.String(), "dlq comment": group.LastEntry.String()} {
		d.run(ExitOK, command+" "+id, "There are no comments.")
		say := func(actor, text string) api.Comment {
			t.Helper()
			r := postrider(t, []string{"DATABASE_URL=" + d.operator}, append(strings.Fields(command), id, text, "--actor", actor, "-o", "json")...)
			if r.code != ExitOK {
				t.Fatalf("%s: exit code %d, %s", command, r.code, r.stderr)
			}
			return decode[api.Comment](t, r.stdout)
		}
		first, second := say("ada", "the mapper \x1b[2Jis old ☃"), say("kim", "not any more")
		if *first.Text != "the mapper \x1b[2Jis old ☃" || !strings.HasSuffix(first.Author, "(ada)") || second.ID <= first.ID {
			t.Errorf("%+v, then %+v", first, second)
		}
		d.run(ExitOK, command+" "+id, "is old ☃", "(kim)", "not any more")
		d.run(ExitOK, command+" "+id+" --limit 1", fmt.Sprintf("--after %d", first.ID))
		d.run(ExitFailure, fmt.Sprintf("%s %s --delete %d --actor kim", command, id, first.ID), "only its author", "(ada)")
		d.run(ExitOK, fmt.Sprintf("%s %s --delete %d --actor ada", command, id, first.ID), "Deleted")
		d.run(ExitOK, command+" "+id, "(deleted)", "(ada)", "not any more")
		d.run(ExitFailure, command+" "+uuid.NewString()+" x", "not found; postrider dlq")
		d.run(ExitUsage, command+" "+id+" x --delete 1", "either")
		d.run(ExitUsage, command+" "+id+" --delete 0", "--delete is 0")
		d.run(ExitUsage, command+" "+id+" "+strings.Repeat("x", 16385), "text has 16385 bytes", "at most 16384")
		d.run(ExitUsage, command+" "+id+" --limit 0", "--limit is 0")
	}
	const want = "2 comment, 1 comment_delete"
	for kind, prefix := range map[string]string{"group": "group.", "entry": "dlq."} {
		if got := d.ask(`select string_agg(n || ' ' || replace(action, '` + prefix + `', ''), ', ' order by action) from (select action, count(*) n from postrider.access_audit where target_type = '` + kind + `' group by 1) x`); got != want {
			t.Errorf("%s: the audit log has %s, want %s", kind, got, want)
		}
	}
}
