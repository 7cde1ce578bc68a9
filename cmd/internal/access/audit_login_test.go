package access_test

import (
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestALoginStandsForAllWhoUsedIt: the rows of a login of the database are found under its name, with and without a person,
// by an index. A person who used a login and a key with a similar name are told apart.
func TestALoginStandsForAllWhoUsedIt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Pool(t)
	const insert = `insert into postrider.access_audit (actor, action, target_type, target_id) `
	pgtest.Exec(t, pool, insert+`values ('cli:ada', 'a', 'entry', '1'), ('cli:ada (ann)', 'a', 'entry', '2'), ('cli:ada (bob (ops))', 'a', 'entry', '3'),
		('cli:adam', 'a', 'entry', '4'), ('cli:ad', 'a', 'entry', '5'), ('ada', 'a', 'entry', '6'), ('bot', 'a', 'entry', '7'), ('bot (staging)', 'a', 'entry', '8')`)
	pgtest.Exec(t, pool, insert+`select case i % 2 when 0 then 'cli:shared (person ' || i % 7 || ')' else 'console' end, 'a', 'entry', 'x' from generate_series(1, 20000) i`)
	pgtest.Exec(t, pool, `vacuum (analyze) postrider.access_audit`)
	s := access.NewStore(pool)
	for actor, want := range map[string]string{
		"cli:ada": "321", "cli:ada (ann)": "2", "cli:ada (bob (ops))": "3", "cli:adam": "4", "cli:ad": "5", "ada": "6", "bot": "7", "bot (staging)": "8",
		"cli:a%": "", "cli:ada (": "", "cli:": "", "cli:eve": "",
	} {
		done, err := s.History(t.Context(), access.DoneFilter{Actor: actor})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range done {
			got += d.TargetID
		}
		if got != want {
			t.Errorf("%s did %q, want %q", actor, got, want)
		}
	}
	for actor, want := range map[string]int{"cli:ada": 3, "cli:shared": 100, "cli:eve": 0} {
		if n, read := listed(t, db, actor, "", "", "", nil, nil, int64(0), 100, true); n != want || read > 500 {
			t.Errorf("%s: %d rows, want %d, with %d reads", actor, n, want, read)
		}
	}
}
