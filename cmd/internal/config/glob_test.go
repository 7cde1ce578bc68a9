package config

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/message"
)

// expression is a glob as a regular expression, to compare with.
func expression(glob string) *regexp.Regexp {
	quoted := strings.NewReplacer(`\*`, "[a-zA-Z0-9._-]*", `\?`, "[a-zA-Z0-9._-]").Replace(regexp.QuoteMeta(glob))
	return regexp.MustCompile("^" + quoted + "$")
}

func TestGlobFits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"orders", "orders", true}, {"orders", "orders.eu", false}, {"orders", "my.orders", false}, {"orders.*", "orders.eu", true},
		{"orders.*", "orders.eu.north", true}, {"orders.*", "orders.", true}, {"orders.*", "orders", false}, {"orders.*", "ordersXeu", false},
		{"*", "a", true}, {"*.eu", "orders.eu", true}, {"*.eu", "orders.europe", false}, {"o?ders", "orders", true}, {"o?ders", "oders", false},
		{"*a*b", "xaxxbxb", true}, {"*a*b", "xaxxbx", false}, {"a*a", "a", false}, {"a*a", "aa", true}, {"Orders", "orders", false},
	} {
		if got := fits(c.glob, c.name); got != c.want {
			t.Errorf("%q fits %q: %v", c.glob, c.name, got)
		}
	}
}

// Globs and names of few letters meet often.
func TestGlobsAgainstExpressions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		globs := rapid.StringMatching(`([ab.]|[ab.?]\*?){1,6}`)
		a, b := globs.Draw(t, "a"), globs.Draw(t, "b")
		name := rapid.StringMatching(`[ab.]{1,8}`).Draw(t, "name")
		if got, want := fits(a, name), expression(a).MatchString(name); got != want {
			t.Fatalf("%q fits %q: %v", a, name, got)
		}
		both, exists := joint(a, b)
		if exists && !(expression(a).MatchString(both) && expression(b).MatchString(both)) {
			t.Fatalf("the joint name of %q and %q is %q", a, b, both)
		}
		if !exists && fits(a, name) && fits(b, name) {
			t.Fatalf("%q and %q have no joint name, but there is %q", a, b, name)
		}
	})
}

func TestJointIsATopic(t *testing.T) {
	t.Parallel()
	for _, glob := range []string{"*", "?", "a*", "*.dlq", "a?c*"} {
		if name, exists := joint(glob, "*"); !exists || message.ValidTopic(name) != nil {
			t.Errorf("the joint name of %q and * is %q, %v", glob, name, exists)
		}
	}
}

func TestCheckGlob(t *testing.T) {
	t.Parallel()
	for glob, want := range map[string]string{
		"orders": "", "a.b-c_D9": "", "*": "", "orders.*": "", "?": "", "*.?": "", "..*": "", strings.Repeat("a", 249): "",
		"": "empty", "orders/*": `'/'`, "orders.[a-z]": `'['`, "{a,b}": `'{'`, "a b": `' '`, "größe": "'ö'", `a\*`: `'\\'`, "a**": "two *",
		".": "no topic", "..": "no topic", strings.Repeat("a", 250): "no topic", strings.Repeat("a", 250) + "*": "no topic", "\x00": `'\x00'`,
	} {
		err := checkGlob(glob)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", glob, err, want)
		}
	}
}
