package migrations

import (
	"slices"
	"strings"
	"testing"
)

func TestSplitStatements(t *testing.T) {
	t.Parallel()
	type piece struct {
		text string
		line int
	}
	for name, test := range map[string]struct {
		sql  string
		want []piece
	}{
		"nothing":             {" \n-- only; this\n/* and; this */ ;;\n", nil},
		"two":                 {"select 1;\nselect 2", []piece{{"select 1", 1}, {"select 2", 2}}},
		"leading comment":     {"-- why;\n\nselect 1;", []piece{{"select 1", 3}}},
		"string":              {"select 'a;''b;'; select 2;", []piece{{"select 'a;''b;'", 1}, {"select 2", 1}}},
		"plain backslash":     {`select '\'; select 2;`, []piece{{`select '\'`, 1}, {"select 2", 1}}},
		"quoted name":         {`select ";""--"; select 2`, []piece{{`select ";""--"`, 1}, {"select 2", 1}}},
		"dollar quotes":       {"do $$ begin; end $$;\ndo $a$ $$; $b$; $a$;", []piece{{"do $$ begin; end $$", 1}, {"do $a$ $$; $b$; $a$", 2}}},
		"parameter":           {"select $1; select $2;", []piece{{"select $1", 1}, {"select $2", 1}}},
		"open string":         {"select 'a; select 2;", []piece{{"select 'a; select 2;", 1}}},
		"open dollar quote":   {"do $x$ begin; end;", []piece{{"do $x$ begin; end;", 1}}},
		"stray dollar at end": {"select $", []piece{{"select $", 1}}},
		"comment behind":      {"select 1 -- one\n; select 2 /* ; */", []piece{{"select 1", 1}, {"select 2", 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []piece
			for _, s := range splitStatements(test.sql) {
				got = append(got, piece{s.text, s.line})
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func FuzzSplitStatements(f *testing.F) {
	for _, seed := range []string{"select 1; select 2", "do $a$ ; $a$; E'\\'';", "/* /* */ ; */ (;) \"", "create function f() begin atomic ; end"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		rest := sql
		for _, s := range splitStatements(sql) {
			at := strings.Index(rest, s.text)
			if s.text == "" || at < 0 {
				t.Fatalf("%q is not the next piece of %q", s.text, rest)
			}
			rest = rest[at+len(s.text):]
		}
	})
}

func TestTerminated(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]string{
		"select 1;\n\n":          "select 1;\n",
		"select 1":               "select 1\n;\n",
		"select 1 -- not yet":    "select 1 -- not yet\n;\n",
		"select 1; -- all said ": "select 1; -- all said\n",
	} {
		if got := terminated(sql); got != want {
			t.Errorf("%q becomes %q, want %q", sql, got, want)
		}
	}
}

func TestLineAndColumn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ position, line, column int }{
		{1, 1, 1}, {2, 1, 2}, {4, 2, 1}, {6, 2, 3}, {7, 2, 4}, {99, 2, 4},
	} {
		line, column := lineAndColumn("äö\nüab", test.position)
		if line != test.line || column != test.column {
			t.Errorf("position %d is line %d column %d, want %d and %d", test.position, line, column, test.line, test.column)
		}
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	sql := "one\ntwo\nthree\n\tfour four\nfive\n" + strings.Repeat("x", 400)
	if got, want := excerpt(sql, 4, 4, 7), "     2 | two\n     3 | three\n>    4 |  four four\n       |       ^\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	long := excerpt(sql, 6, 60, 0)
	if !strings.Contains(long, ">    6 | "+strings.Repeat("x", maxExcerptWidth)+" …\n") {
		t.Errorf("a long line is not cut:\n%s", long)
	}
	many := excerpt(strings.Repeat("y\n", 100), 10, 90, 0)
	if lines := strings.Count(many, "\n"); lines != maxExcerptLines+2 {
		t.Errorf("%d lines of a statement of 80", lines)
	}
}
