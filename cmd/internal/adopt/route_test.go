package adopt

import (
	"strings"
	"testing"
)

// What PostgreSQL makes of them is in TestTopicsAreThoseOfTheRouter.
func TestRoute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ regex, replacement, want string }{
		{"(?<routedByValue>.*)", "outbox.event.${routedByValue}", `('outbox.event.' || r.a)`},
		{"(.*)", "$1", `('' || r.a)`},
		{`(?<x>[a-z]+)-(\d+)`, "${x}.$2", `case when r.a ~ '^(?:([a-z]+)-([0-9]+))$' then regexp_replace(r.a, '^(?:([a-z]+)-([0-9]+))$', E'\\1.\\2') else r.a end`},
		{`it's`, `$0&\$`, `case when r.a ~ '^(?:it''s)$' then regexp_replace(r.a, '^(?:it''s)$', E'\\&&$') else r.a end`},
		{`^(a(?:bc)*)\$$`, `\\$1`, `case when r.a ~ E'^(?:(a(?:bc)*)\\$)$' then regexp_replace(r.a, E'^(?:(a(?:bc)*)\\$)$', E'\\\\\\1') else r.a end`},
		{`(a{1,255}b{2,})`, "$1", `case when r.a ~ '^(?:(a{1,255}b{2,}))$' then regexp_replace(r.a, '^(?:(a{1,255}b{2,}))$', E'\\1') else r.a end`},
		{`([\w.]+)`, "$10", `case when r.a ~ '^(?:([a-zA-Z0-9_.]+))$' then regexp_replace(r.a, '^(?:([a-zA-Z0-9_.]+))$', E'\\10') else r.a end`},
	} {
		got, err := Route{"a", c.regex, c.replacement}.SQL("r.a")
		if err != nil || got != c.want {
			t.Errorf("%s to %s\ngot  %s, %v\nwant %s", c.regex, c.replacement, got, err, c.want)
		}
	}
}

func TestRoutesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ regex, replacement, want string }{
		{"a|b", "x", "alternatives"},
		{"(.*?)x", "x", "quantifier"},
		{"a++", "x", "quantifier"},
		{"(?=a)", "x", "group"},
		{"(?<=a)b", "x", "group"},
		{"(?i)a", "x", "group"},
		{`\p{L}`, "x", `escape \p`},
		{`\bx`, "x", `escape \b`},
		{"[a&&b]", "x", "class of characters"},
		{"[a[b]]", "x", "class of characters"},
		{"[a", "x", "does not end"},
		{"(a", "x", "a ( does not end"},
		{"a)", "x", "a ) ends nothing"},
		{"a{1,256}", "x", "counts to 255"},
		{"a{300}", "x", "counts to 255"},
		{"a{x}", "x", "counts to 255"},
		{"a^b", "x", "in its middle"},
		{`a\`, "x", "backslash"},
		{"(a)", "$2", "group 2 of 1"},
		{"(a)", "${b}", `no group "b"`},
		{"(a)", "$x", "names no group"},
		{strings.Repeat("(a)", 10), "$10", "PostgreSQL has nine"},
	} {
		if got, err := (Route{"a", c.regex, c.replacement}).SQL("r.a"); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--topic-sql") {
			t.Errorf("%s to %s: %q, %v; the error should say %q", c.regex, c.replacement, got, err, c.want)
		}
	}
}
