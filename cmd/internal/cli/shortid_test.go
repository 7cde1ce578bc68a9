package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestBeginningsOfIDs: a command takes the beginning of an id that only one has, and refuses others with the ids it could
// mean.
func TestBeginningsOfIDs(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := []string{"DATABASE_URL=" + db.URL}
	if _, err := db.Pool(t).Exec(t.Context(), `insert into postrider.dlq_group (dlq_group_uuid, fingerprint, fingerprint_version, parts, title, first_seen_at, last_seen_at)
		select id::uuid, id, 1, '{}', 'title of ' || id, now(), now() from unnest(array['0198c0de-0000-7000-8000-000000000001',
			'0198c0de-0000-7000-8000-000000000002', '0198c0df-0000-7000-8000-000000000001']) id`); err != nil {
		t.Fatal(err)
	}
	contains(t, succeed(t, db, "dlq", "groups", "0198c0df"), "title of 0198c0df-0000-7000-8000-000000000001")
	contains(t, succeed(t, db, "dlq", "groups", "0198C0DE-0000-7000-8000-000000000002"), "title of 0198c0de-0000-7000-8000-000000000002")
	succeed(t, db, "dlq", "group", "note", "0198c0df-0000", "0198c0de") // only the first argument is an id
	for arg, want := range map[string]string{
		"0198c0de": "several ids: 0198c0de-0000-7000-8000-000000000001 and 0198c0de-0000-7000-8000-000000000002",
		"0198c0ff": "no group has an id that begins with 0198c0ff; postrider dlq groups shows them",
		"0198c":    `"0198c" is not the id of a group`,
	} {
		r := postrider(t, env, "dlq", "groups", arg)
		if r.code != ExitUsage {
			t.Errorf("%s: exit code %d, %s", arg, r.code, r.stdout)
		}
		contains(t, r.stderr, want)
	}
	contains(t, succeed(t, db, "dlq", "list", "--group", "0198c0df"), "no such investigations")
	for _, args := range [][]string{{"archive", "show", "0198c0ff"}, {"dlq", "group", "split", "0198c0df", "0198c0ff"}, {"dlq", "list", "--group", "0198c0ff"},
		{"op", "plan", "--group", "0198c0ff", "--name", "n"}, {"outbox", "list", "--task", "0198c0ff"}, {"dlq", "show", "0198c0ff"}, {"op", "show", "0198c0ff"}, {"task", "show", "0198c0ff"}, {"task", "step", "retry", "0198c0ff", "charge"}} {
		r := postrider(t, env, args...)
		contains(t, r.stderr, "has an id that begins with 0198c0ff")
	}
}

// TestEveryBeginningIsTaken: each beginning of an id of at least eight characters, and no whole id, is looked up, from its
// lowest to its highest.
func TestEveryBeginningIsTaken(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		n := rapid.IntRange(1, 36).Draw(t, "length")
		text := id.String()[:n]
		if got, want := beginning.MatchString(text), n >= shortID && n < 36; got != want {
			t.Fatalf("%q is taken for a beginning: %v", text, got)
		} else if !want {
			return
		}
		low, high := uuid.MustParse(padID(text, '0')), uuid.MustParse(padID(text, 'f'))
		if id.String() < low.String() || id.String() > high.String() {
			t.Fatalf("%s is not from %s to %s", id, low, high)
		}
	})
}

// begins is the shortest beginning of an id, as tables on a terminal have it, that no other has.
func begins(id uuid.UUID, others ...uuid.UUID) string {
	n := shortID
	for slices.ContainsFunc(others, func(other uuid.UUID) bool { return other.String()[:n] == id.String()[:n] }) {
		n++
	}
	return id.String()[:n]
}

// TestStepsByBeginning: a beginning that two steps have is refused, and a name goes before a beginning.
func TestStepsByBeginning(t *testing.T) {
	t.Parallel()
	id := func(last string) uuid.UUID { return uuid.MustParse("0198c0de-0000-7000-8000-00000000000" + last) }
	steps := []ledger.Step{{UUID: id("1"), Name: "a"}, {UUID: id("2"), Name: "b"}, {UUID: uuid.MustParse("0198c0df-0000-7000-8000-000000000001"), Name: "0198c0de"}}
	for given, want := range map[string]string{"0198C0DF": "0198c0de", "0198c0de": "0198c0de", "0198c0de-0000-7000-8000-000000000002": "b"} {
		if s, err := findStep(uuid.Nil, steps, given); err != nil || s.Name != want {
			t.Errorf("%s is %s, %v", given, s.Name, err)
		}
	}
	_, err := findStep(uuid.Nil, steps, "0198c0de-")
	if err == nil || !strings.Contains(err.Error(), "several ids: "+id("1").String()+" and "+id("2").String()) {
		t.Errorf("%v", err)
	}
}
