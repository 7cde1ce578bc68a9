package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
)

// TestGroupsByHand: what people write about a group by command, with an operator's rights, is there and in the audit log.
func TestGroupsByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 2)
	id := decode[api.List[api.Group]](t, d.run(ExitOK, "dlq groups -o json")).Items[0].UUID.String()
	words := func(args ...string) api.Group {
		t.Helper()
		r := postrider(t, []string{"DATABASE_URL=" + d.operator}, append(append([]string{"dlq", "group"}, args...), "-o", "json", "--actor", "ada")...)
		if r.code != ExitOK {
			t.Fatalf("%q: exit code %d, %s", args, r.code, r.stderr)
		}
		return decode[api.Group](t, r.stdout)
	}
	if g := words("note", id, "the \x1b[2Jmapper is old\nsee the ticket"); g.UUID.String() != id || *g.Note != "the \x1b[2Jmapper is old\nsee the ticket" || g.State != "ongoing" || g.Assignee != nil || g.Pending != 2 {
		t.Errorf("noted: %+v", g)
	}
	if g := words("assign", id, "kim"); *g.Assignee != "kim" || g.Note == nil {
		t.Errorf("assigned: %+v", g)
	}
	d.run(ExitOK, "dlq groups "+id, "Assignee", "kim", "Note", "mapper is old")
	if g := words("mute", id, "--until", "7d"); g.State != "muted" || time.Until(*g.MutedUntil).Round(24*time.Hour) != 7*24*time.Hour {
		t.Errorf("muted: %+v", g)
	}
	if g := words("mute", id, "--until", "2999-01-31T12:00:00Z"); g.State != "muted" || !g.MutedUntil.Equal(time.Date(2999, 1, 31, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("muted: %+v", g)
	}
	d.run(ExitOK, "dlq group mute "+id, "State", "muted", "a person ends it", "kim")
	if g := words("assign", id, ""); g.State != "muted" || g.MutedUntil != nil || g.Assignee != nil {
		t.Errorf("unassigned: %+v", g)
	}
	d.run(ExitOK, "dlq group unmute "+id, "ongoing", "2 of 2")
	if g := words("note", id, ""); g.Note != nil || g.State != "ongoing" {
		t.Errorf("without a note: %+v", g)
	}
	const want = "group.note, group.assign, group.mute, group.mute, group.mute, group.assign, group.unmute, group.note"
	if got := d.ask(`select string_agg(action, ', ' order by access_audit_id) from postrider.access_audit where target_type = 'group' and target_id = '` + id + `' and actor like 'cli:%'`); got != want {
		t.Errorf("the audit log has %s, want %s", got, want)
	}
	if got := d.ask(`select count(*)::text from postrider.access_audit where actor like 'cli:% (ada)'`); got != "6" {
		t.Errorf("%s rows are ada's, want 6", got)
	}

	nowhere := uuid.NewString()
	for _, command := range []string{"note " + nowhere + " x", "assign " + nowhere + " kim", "mute " + nowhere, "unmute " + nowhere} {
		d.run(ExitFailure, "dlq group "+command, "group "+nowhere+": not found; postrider dlq groups shows them")
	}
	d.run(ExitUsage, "dlq group mute x", `"x" is not the id of a group, a uuid of 36 characters, not all zeros; postrider dlq groups shows them`)
	d.run(ExitUsage, "dlq group note "+id, "takes ID TEXT, but was given 1")
	d.run(ExitUsage, "dlq group assign "+id+" "+strings.Repeat("x", 256), "assignee has 256 bytes", "at most 255")
	d.run(ExitUsage, "dlq group mute "+id+" --until 2020-01-31T12:00:00Z", "--until is", "which is over")
	d.run(ExitUsage, "dlq group mute "+id+" --until 0h", "which is over")
	d.run(ExitUsage, "dlq group mute "+id+" --until tomorrow", `--until is "tomorrow"`, "how long from now")
	d.run(ExitUsage, "dlq group mute "+id+" -o xml", "xml")
	d.run(ExitUsage, "dlq group close "+id, `no command "close"`, "assign, comment, merge, mute, note, split, unmute")
}

// TestGroupsAreOffered: where a command names a group, the shell offers groups; unmute gets only muted groups.
func TestGroupsAreOffered(t *testing.T) {
	t.Parallel()
	d := newRig(t, 1)
	id := decode[api.List[api.Group]](t, d.run(ExitOK, "dlq groups -o json")).Items[0].UUID.String()
	offered := func(words ...string) bool {
		t.Helper()
		r := postrider(t, []string{"DATABASE_URL=" + d.operator}, append(append([]string{"__complete", "dlq", "group"}, words...), "")...)
		if r.code != ExitOK || strings.Contains(r.stdout, "\x1b") {
			t.Fatalf("%q: exit code %d, %s", words, r.code, r.stderr)
		}
		return strings.Contains(r.stdout, id+"\t")
	}
	for _, command := range []string{"note", "assign", "mute"} {
		if !offered(command) || offered(command, id) {
			t.Errorf("%s: offered is %v, and then %v", command, offered(command), offered(command, id))
		}
	}
	if offered("unmute") {
		t.Error("one that is not muted is offered to be unmuted")
	}
	d.run(ExitOK, "dlq group mute "+id)
	if !offered("unmute") {
		t.Error("one that is muted is not offered")
	}
}
