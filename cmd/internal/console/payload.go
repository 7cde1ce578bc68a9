package console

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider/cmd/internal/plural"
)

// A payload may have 16 MiB and 20,000 levels. What is shown of it is bounded in bytes before it is looked at.

const (
	// maxShown is how many bytes of a payload are read for a page.
	maxShown = 64 << 10
	// maxHex is how many bytes of it are shown as hexadecimal digits.
	maxHex = 4 << 10
	// maxIndent is how deep JSON is indented; deeper levels stay on one line.
	maxIndent = 24
	// maxPieces is how many pieces of JSON a page tells apart; the rest is one piece.
	maxPieces = 4000
)

// body is a payload as a page shows it.
type body struct {
	// Kind says in words what it is: JSON, text, bytes, a tombstone, or where the bytes are.
	Kind string
	// Size is its length, in bytes.
	Size int64
	// As is how it is shown: json, text or hex. Ways are the ways that it can be shown in.
	As   string
	Ways []string
	// Pieces are its text, in order.
	Pieces []piece
	// Cut says that only the beginning is shown.
	Cut bool
	// Hidden is how many values a rule of redaction has replaced.
	Hidden int
	// Note says what is other than in the message; empty where nothing is.
	Note string
	// None says why there is nothing to show; empty where there is.
	None string
}

const (
	// indented is the note of JSON that is shown over lines.
	indented = "White space between values is the page’s; all else is the message’s."
	// reencoded is the note of JSON that comes from a snapshot, a jsonb of PostgreSQL.
	reencoded = "As the database keeps JSON: names in its own order, one of each name, numbers in its own digits. The message itself is shown as it is when you ask for it."
)

// piece is a part of a shown payload.
type piece struct {
	// Key says that it is the name of a member, or punctuation, which is shown quietly.
	Key  bool
	Text string
}

// showBytes shows bytes in a way; an unknown way is the best one. Cut says that they are the beginning of a payload.
func showBytes(b []byte, cut bool, as string) body {
	v := body{Size: int64(len(b)), Ways: []string{"text", "hex"}, Kind: "text"}
	seen := b[:min(len(b), maxShown)]
	pieces, isJSON := prettyJSON(seen)
	if isJSON = isJSON && (json.Valid(b) || cut && beginsAsJSON(seen)); isJSON { // prettyJSON leaves out white space, which means something elsewhere
		v.Kind, v.Ways = "JSON", []string{"json", "text", "hex"}
	} else if bytes.IndexByte(seen, 0) >= 0 || !utf8.Valid(cutRune(seen)) {
		v.Kind, v.Ways = "bytes", []string{"hex", "text"}
	}
	v.As = v.Ways[0]
	for _, way := range v.Ways {
		if way == as {
			v.As = way
		}
	}
	v.Cut = cut || len(b) > maxShown
	switch v.As {
	case "json":
		v.Pieces, v.Note = pieces, indented
	case "hex":
		v.Cut = cut || len(b) > maxHex
		v.Pieces = []piece{{Text: hex.Dump(b[:min(len(b), maxHex)])}}
	default:
		v.Pieces = []piece{{Text: string(seen)}}
	}
	for i := range v.Pieces {
		v.Pieces[i].Text = shownNUL(v.Pieces[i].Text)
	}
	if len(b) == 0 {
		v.None = "The payload is empty: 0 bytes."
	}
	return v
}

// cutRune leaves out the last rune where the end of what is shown may have cut it.
func cutRune(b []byte) []byte {
	if len(b) < maxShown {
		return b
	}
	return b[:max(len(b)-utf8.UTFMax, 0)]
}

// beginsAsJSON reports whether a text whose end was cut off is the beginning of one JSON value.
func beginsAsJSON(b []byte) bool {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // the digits may be more than a number of Go has
	depth := 0
	for {
		token, err := d.Token()
		switch {
		case err != nil:
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		case token == json.Delim('{') || token == json.Delim('['):
			depth++
		case token == json.Delim('}') || token == json.Delim(']'):
			depth--
		}
		if depth == 0 { // what follows a whole value is no part of it
			return len(bytes.TrimSpace(b[d.InputOffset():])) == 0
		}
	}
}

// prettyJSON is JSON over lines, in pieces, and whether the text begins with an object or a list. It looks at each byte once and
// does not recurse, so neither depth nor size can hurt. It decodes nothing: repeated names and the digits of numbers stay. It
// does not tell JSON from other text, whose white space it would leave out: that is for json.Valid, and for beginsAsJSON where
// the end is cut.
func prettyJSON(b []byte) ([]piece, bool) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' && b[0] != '[' {
		return nil, false
	}
	var out []piece
	var line strings.Builder
	flush := func() {
		if line.Len() > 0 {
			out = append(out, piece{Text: line.String()})
			line.Reset()
		}
	}
	depth := 0
	newline := func() {
		if depth <= maxIndent {
			line.WriteByte('\n')
			line.WriteString(strings.Repeat("  ", max(depth, 0)))
		}
	}
	for i := 0; i < len(b); i++ {
		if len(out) > maxPieces {
			flush()
			return append(out, piece{Text: string(b[i:])}), true
		}
		switch c := b[i]; c {
		case '"':
			end := endOfString(b, i)
			text := string(b[i:end])
			i = end - 1
			if after := bytes.TrimLeft(b[end:min(end+8, len(b))], " \t\r\n"); len(after) > 0 && after[0] == ':' {
				flush()
				out = append(out, piece{Key: true, Text: text})
			} else {
				line.WriteString(text)
			}
		case '{', '[':
			line.WriteByte(c)
			depth++
			if rest := bytes.TrimLeft(b[i+1:min(i+9, len(b))], " \t\r\n"); len(rest) > 0 && rest[0] != '}' && rest[0] != ']' {
				newline()
			}
		case '}', ']':
			depth--
			if last := line.String(); !strings.HasSuffix(last, "{") && !strings.HasSuffix(last, "[") {
				newline()
			}
			line.WriteByte(c)
		case ',':
			line.WriteByte(c)
			newline()
		case ':':
			line.WriteString(": ")
		case ' ', '\t', '\r', '\n':
		default:
			line.WriteByte(c)
		}
	}
	flush()
	return out, true
}

// endOfString is the place behind the string that begins at i.
func endOfString(b []byte, i int) int {
	for j := i + 1; j < len(b); j++ {
		switch b[j] {
		case '\\':
			j++
		case '"':
			return j + 1
		}
	}
	return len(b)
}

// carried is what the snapshot of a message says about what it carried; see internal/dlq.
type carried struct {
	Key             json.RawMessage `json:"key"`
	KeyKind         string          `json:"key_kind"`
	Headers         json.RawMessage `json:"headers"`
	Payload         json.RawMessage `json:"payload"`
	PayloadKind     string          `json:"payload_kind"`
	PayloadBytes    *int64          `json:"payload_bytes"`
	PayloadEncoding string          `json:"payload_encoding"`
	// PayloadTruncated says where the whole is of a payload that was cut; empty for a whole one.
	PayloadTruncated string `json:"payload_truncated"`
}

// redactedText is what the rules of redaction put in the place of a value.
const redactedText = "[redacted]"

// showCarried shows the payload of a snapshot, which redaction has gone over.
func showCarried(c carried, as string) body {
	var b []byte
	switch {
	case c.PayloadKind == "tombstone":
		return body{Kind: "tombstone", None: "It is a tombstone: Kafka’s null, which deletes its key from a compacted topic."}
	case len(c.Payload) == 0 || string(c.Payload) == "null" && c.PayloadEncoding != "json":
		v := body{Kind: "reference", None: "The payload is not kept here; the dead letter says where it was."}
		if c.PayloadBytes != nil {
			v.Size = *c.PayloadBytes
		}
		return v
	case c.PayloadEncoding == "text" || c.PayloadEncoding == "base64":
		b = []byte(snapshotText(c.Payload))
	default:
		b = c.Payload
	}
	if c.PayloadEncoding == "json" {
		as = ""
	}
	v := showBytes(b, c.PayloadTruncated != "", as)
	if c.PayloadEncoding == "json" {
		v.Kind, v.Ways, v.Note = "JSON", v.Ways[:1], reencoded // as text or bytes it would be taken for the message's own
	}
	v.Hidden = bytes.Count(b[:min(len(b), maxShown)], []byte(redactedText))
	if c.PayloadBytes != nil {
		v.Size = *c.PayloadBytes
	}
	return v
}

// keyText is the key of a snapshot for people.
func keyText(c carried) string {
	if c.KeyKind == "tombstone" || len(c.Key) == 0 {
		return ""
	}
	return snapshotText(c.Key)
}

// snapshotText returns the bytes that a snapshot has as a text or as {"base64": …}; other JSON stays as it is.
func snapshotText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var encoded struct {
		Base64 *[]byte `json:"base64"`
	}
	if json.Unmarshal(raw, &encoded) == nil && encoded.Base64 != nil {
		return string(*encoded.Base64)
	}
	return string(raw)
}

// pair is a header.
type pair struct{ Name, Value string }

// headerPairs reads headers: pairs of name and value. A value may be null or {"base64": …}.
func headerPairs(raw json.RawMessage) []pair {
	var rows [][]json.RawMessage
	if json.Unmarshal(raw, &rows) != nil {
		return nil
	}
	var out []pair
	for _, row := range rows {
		if len(row) != 2 {
			continue
		}
		out = append(out, pair{Name: plainJSON(row[0]), Value: plainJSON(row[1])})
	}
	return out
}

// plainJSON is a text without its quotes; other JSON stays as it is.
func plainJSON(raw json.RawMessage) string {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return *text
	}
	return string(raw)
}

// bytesText is a size for people.
func bytesText(n int64) string {
	switch {
	case n < 1000:
		return plural.Of(n, "byte", "bytes")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
