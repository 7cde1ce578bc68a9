package postgres

import "strings"

// maxTextBytes caps what an error leaves in the database.
const maxTextBytes = 8 << 10

// text makes any string fit for a text column: valid UTF-8, no NUL, of bounded length. Settling must
// not fail because of what a broker wrote into an error message.
func text(s string) string {
	if len(s) > maxTextBytes {
		s = s[:maxTextBytes]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
