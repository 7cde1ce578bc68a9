package config

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/postrider/postrider/message"
)

// A glob stands for topic names: * for any characters, none included, ? for exactly one, everything
// else for itself. It must fit the whole name. A dot is a character like any other.

// checkGlob returns an error that describes the mistake in a glob, and does not repeat the glob.
func checkGlob(glob string) error {
	if glob == "" {
		return errors.New("it must not be empty")
	}
	if strings.Contains(glob, "**") {
		return errors.New("it has two * in a row; one stands for any characters, dots included")
	}
	letters := 0 // characters that each matching name has at least
	for _, r := range glob {
		switch {
		case r == '*':
			continue
		case r != '?' && message.ValidTopic("x"+string(r)) != nil:
			return fmt.Errorf("it has the character %q; a topic name has letters, digits, dots, underscores and hyphens, and * and ? are the only wildcards", r)
		}
		letters++
	}
	if letters > 249 || !wild(glob) && message.ValidTopic(glob) != nil {
		return errors.New(`no topic can have this name: 1 to 249 characters, and not "." or ".."`)
	}
	return nil
}

// wild reports whether a glob may stand for more than one name.
func wild(glob string) bool { return strings.ContainsAny(glob, "*?") }

// fits reports whether a glob stands for a name. No name of a topic has a slash, which * would not stand for here.
func fits(glob, name string) bool {
	fit, _ := path.Match(glob, name) // checkGlob has refused a glob that path.Match cannot read
	return fit
}

// matching returns the regular expression that matches what a glob stands for, in Go and in PostgreSQL.
func matching(glob string) string {
	return "^" + strings.NewReplacer(".", `\.`, "*", ".*", "?", ".").Replace(glob) + "$"
}

// joint returns a shortest name that both globs stand for, if there is one.
func joint(a, b string) (name string, exists bool) {
	type offsets struct{ a, b int }
	type route struct {
		offsets
		name string
	}
	seen := map[offsets]bool{}
	for queue := []route{{}}; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if seen[p.offsets] {
			continue
		}
		if p.a == len(a) && p.b == len(b) && p.name != "" {
			return p.name, true
		}
		seen[p.offsets] = p.name != "" // the beginning may be met again with something in hand
		headA, headB := head(a, p.a), head(b, p.b)
		// A * that takes nothing more.
		if headA == '*' {
			queue = append(queue, route{offsets{p.a + 1, p.b}, p.name})
		}
		if headB == '*' {
			queue = append(queue, route{offsets{p.a, p.b + 1}, p.name})
		}
		if letter, both := common(headA, headB); both {
			next := route{p.offsets, p.name + string(letter)}
			if headA != '*' {
				next.a++
			}
			if headB != '*' {
				next.b++
			}
			queue = append(queue, next)
		}
	}
	return "", false
}

// head is the character of a glob at an offset, 0 at its end.
func head(glob string, at int) byte {
	if at == len(glob) {
		return 0
	}
	return glob[at]
}

// common returns a character that two characters of globs both stand for.
func common(a, b byte) (byte, bool) {
	free := func(c byte) bool { return c == '*' || c == '?' }
	switch {
	case a == 0 || b == 0:
		return 0, false
	case free(a) && free(b):
		return 'x', true
	case free(a):
		return b, true
	default:
		return a, free(b) || a == b
	}
}
