package dlq

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Longest texts of a letter, in bytes; longer ones are cut between characters.
const (
	maxMessageBytes = 8 << 10
	maxStackBytes   = 16 << 10
	maxNameBytes    = 249 // of a Kafka topic name, and enough for a class or code
	maxIDBytes      = 1024
)

// storableText makes s what a text column accepts: valid UTF-8 without NUL, at most limit bytes.
func storableText(s string, limit int) string {
	s = cut(s, limit) // first, so that a huge header costs nothing
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	return cut(s, limit) // a replacement is longer than what it replaces
}

// cut returns at most limit bytes of s, without splitting a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for i := limit; i > limit-utf8.UTFMax && i >= 0; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:limit] // not UTF-8, nothing to split
}

// storableTime returns t in UTC, or zero where a timestamptz or JSON could not hold it.
func storableTime(t time.Time) time.Time {
	t = t.UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}
