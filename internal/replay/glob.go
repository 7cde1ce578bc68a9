package replay

import (
	"errors"
	"unicode/utf8"
)

// What a place of a glob stands for, beside the byte that it is.
const (
	anyText = -1 // *
	anyChar = -2 // ?
)

// glob stands for texts: * for any characters, none included, ? for exactly one, a backslash takes the meaning from
// the character behind it, everything else is itself. It must fit the whole text. A byte that is not UTF-8 counts as
// a character.
type glob []int

func parseGlob(s string) (glob, error) {
	var g glob
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '*':
			if len(g) == 0 || g[len(g)-1] != anyText { // several are one
				g = append(g, anyText)
			}
		case '?':
			g = append(g, anyChar)
		case '\\':
			if i++; i == len(s) {
				return nil, errors.New(`it ends in a backslash; write \\ for one`)
			}
			fallthrough
		default:
			g = append(g, int(s[i]))
		}
	}
	return g, nil
}

// fits reports whether the glob stands for the text. It takes at most the product of both lengths.
func (g glob) fits(s string) bool {
	at, n := 0, 0
	star, taken := -1, 0 // the last * met, and how far the text went when it took its share
	for n < len(s) {
		_, size := utf8.DecodeRuneInString(s[n:])
		switch {
		case at < len(g) && g[at] == anyText:
			star, taken = at, n
			at++
		case at < len(g) && g[at] == anyChar:
			at++
			n += size
		case at < len(g) && g[at] == int(s[n]):
			at++
			n++
		case star >= 0: // let the * take one more character
			_, more := utf8.DecodeRuneInString(s[taken:])
			taken += more
			at, n = star+1, taken
		default:
			return false
		}
	}
	for at < len(g) && g[at] == anyText {
		at++
	}
	return at == len(g)
}
