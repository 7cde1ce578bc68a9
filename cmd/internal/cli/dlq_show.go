package cli

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// How much of a payload a terminal gets; -o json has more.
const (
	textExcerpt   = 4 << 10
	binaryExcerpt = 256
)

// maxKey is how many characters of a key a terminal gets: a key may be as long as a message.
const maxKey = 4 * maxCell

// invalidHeaders tells headers of an event that could not be sent with them.
const invalidHeaders = "  Headers as the event has them. Some cannot be read: %s\n"

// showEntry prints an investigation for people: the message of whole as it is, or, where that is nil, as the
// snapshot has it.
func showEntry(w io.Writer, d dlq.Detail, whole *dlq.Letter) error {
	e, letters := d.Entry, d.Letters
	predecessor := ""
	if e.PredecessorUUID != [16]byte{} {
		predecessor = e.PredecessorUUID.String()
	}
	foreign := ""
	if len(letters) > 0 && letters[0].Dialect != dlq.DialectPostrider {
		foreign = string(letters[0].Dialect)
	}
	if err := fields(w,
		[2]string{"Investigation", e.UUID.String()},
		[2]string{"Source", api.OtherSource(e.Source)},
		[2]string{"Subject", string(e.Subject.Type) + " " + e.Subject.ID},
		[2]string{"Status", statusText(e.Status, e.ResolvedBy)},
		[2]string{"Reason", string(e.Reason)},
		[2]string{"Topic", e.Topic},
		[2]string{"Its key", keyHeld(&e)},
		[2]string{"Dialect", foreign},
		[2]string{"Error", errorTitle(&e)},
		[2]string{"", e.ErrorMessage},
		[2]string{"Root cause", e.RootCause},
		[2]string{"Frame", e.RootFrame},
		[2]string{"Occurred", times(e.Occurrences)},
		[2]string{"Dead-lettered", moment(e.DeadLetteredAt)},
		[2]string{"Last occurred", moment(e.LastOccurredAt)},
		[2]string{"Resolved", moment(e.ResolvedAt)},
		[2]string{"Resolved by", e.ResolvedBy},
		[2]string{"Notes", e.ResolutionNotes},
		[2]string{"Predecessor", predecessor},
		[2]string{"Trace", e.TraceID()},
	); err != nil {
		return err
	}
	if len(e.Metadata) > 0 && string(e.Metadata) != "{}" {
		fmt.Fprintf(w, "\nMetadata:\n%s\n", indented(e.Metadata))
	}
	switch {
	case whole != nil:
		showMessage(w, whole)
	case len(e.Snapshot) > 0:
		showSnapshot(w, e.Snapshot)
	}
	if whole == nil && len(letters) > 0 {
		if text, invalid := letters[0].InvalidHeaders(); invalid {
			fmt.Fprintf(w, invalidHeaders, visible(text))
		}
	}
	fmt.Fprintf(w, "\nDead letters, the newest first:\n")
	rows := make([][]string, len(letters))
	for i := range letters {
		l := &letters[i]
		attempts := ""
		if l.Attempts != nil {
			attempts = strconv.Itoa(int(*l.Attempts))
		}
		rows[i] = []string{moment(l.RecordedAt), fmt.Sprintf("%s/%d@%d", l.DLQTopic, l.DLQPartition, l.DLQOffset), l.ErrorCode, attempts, l.ErrorMessage}
	}
	if err := grid(w, []string{"RECORDED", "READ FROM", "CODE", "ATTEMPTS", "ERROR"}, rows); err != nil {
		return err
	}
	if e.Occurrences > len(letters) {
		fmt.Fprintf(w, "The newest %d of %d are shown.\n", len(letters), e.Occurrences)
	}
	if err := showRedrives(w, &d); err != nil {
		return err
	}
	showNext(w, &d)
	return nil
}

// showRedrives lists the redrives of an investigation, where it has any.
func showRedrives(w io.Writer, d *dlq.Detail) error {
	if len(d.Redrives) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nRedrives, the newest first:\n")
	rows := make([][]string, len(d.Redrives))
	for i := range d.Redrives {
		r := &d.Redrives[i]
		rows[i] = []string{moment(r.CreatedAt), r.Actor, r.Target, redriveText(r, d.Source), moment(r.FinishedAt)}
	}
	return grid(w, []string{"ASKED", "BY", "TOPIC", "STATE", "ENDED"}, rows)
}

// redriveText says where a redrive stands.
func redriveText(r *dlq.Redrive, source string) string {
	switch {
	case r.State != dlq.Queued:
		return strings.ReplaceAll(string(r.State), "_", " ")
	case r.OutboxID == 0: // no row carries it yet
		return "on its way: " + source + " has not taken it yet"
	}
	return "on its way"
}

// keyHeld says that an event halts its key, or that this is not known; empty where it does not.
func keyHeld(e *dlq.Entry) string {
	switch {
	case e.KeyHeld == nil:
		return "only " + e.Source + " knows whether its later events wait"
	case *e.KeyHeld:
		return "is halted: its later events wait"
	}
	return ""
}

// errorTitle is the code of an error with its category.
func errorTitle(e *dlq.Entry) string {
	if c := e.Category(); c != "" {
		return strings.TrimSpace(fmt.Sprintf("%s (%s)", e.ErrorCode, c))
	}
	return e.ErrorCode
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// showMessage prints key, headers and payload of a letter as they are.
func showMessage(w io.Writer, l *dlq.Letter) {
	fmt.Fprintln(w, "\nMessage:")
	_ = fields(w, [2]string{"  Letter", l.ID}, [2]string{"  Key", keyText(l)})
	if l.KeyKind == dlq.Reference {
		// A letter leaves out the headers together with the key.
		fmt.Fprintf(w, "  Headers are not in the letter; they %s\n", place(l, "are", "were"))
	}
	for _, h := range l.Headers {
		if h.Name == message.HeaderInvalidHeaders {
			fmt.Fprintf(w, invalidHeaders, visible(string(h.Value)))
			continue
		}
		fmt.Fprintf(w, "  Header  %s: %s\n", visible(h.Name), shorten(visible(string(h.Value)), 200))
	}
	fmt.Fprintf(w, "  Payload, %s\n", payloadTitle(l))
	if body := payloadText(l.Payload); body != "" {
		fmt.Fprintf(w, "    %s\n", strings.ReplaceAll(body, "\n", "\n    "))
	}
}

// place is where a letter's references lead. A reference into the desk's own outbox was looked for there.
func place(l *dlq.Letter, is, was string) string {
	if l.OutboxID != nil {
		return fmt.Sprintf("%s in postrider.outbox_event, id %d, which is gone", was, *l.OutboxID)
	}
	if l.SourceOutboxID != nil {
		return fmt.Sprintf("%s in postrider.outbox_event of the source %s, id %d, as long as that has it", is, l.Source, *l.SourceOutboxID)
	}
	return fmt.Sprintf("%s in the record of %s, partition %d, offset %d", is, l.DLQTopic, l.DLQPartition, l.DLQOffset)
}

func keyText(l *dlq.Letter) string {
	switch {
	case l.KeyKind == dlq.Reference:
		return "not in the letter; it " + place(l, "is", "was")
	case l.Key == nil:
		return ""
	case utf8.Valid(l.Key):
		return firstCharacters(strconv.Quote(string(l.Key)), maxKey)
	}
	return firstCharacters("0x"+hex.EncodeToString(l.Key), maxKey)
}

// firstCharacters is a text on one line, cut after so many characters with how many follow.
func firstCharacters(text string, most int) string {
	r := []rune(text)
	if len(r) <= most {
		return text
	}
	return string(r[:most]) + fmt.Sprintf("… %d of %d characters are shown; -o json has all", most, len(r))
}

func payloadTitle(l *dlq.Letter) string {
	size := "of unknown size"
	if l.PayloadBytes != nil {
		size = plural.Of(*l.PayloadBytes, "byte", "bytes")
	}
	switch {
	case l.PayloadKind == dlq.Tombstone:
		return "null (a tombstone)"
	case l.PayloadKind == dlq.Reference:
		return fmt.Sprintf("%s, not in the letter; it %s", size, place(l, "is", "was"))
	case len(l.Payload) == 0:
		return "empty"
	case json.Valid(l.Payload):
		return size + ", JSON"
	case utf8.Valid(l.Payload):
		return size + ", text"
	}
	return size + ", binary"
}

// payloadText renders a payload for a terminal: JSON indented, text as it is, anything else as hex,
// each cut and without anything that a terminal would obey.
func payloadText(payload []byte) string {
	switch {
	case len(payload) == 0:
		return ""
	case json.Valid(payload):
		return excerpt(indented(payload))
	case utf8.Valid(payload):
		return excerpt(visibleLines(string(payload)))
	}
	dump := strings.TrimRight(hex.Dump(payload[:min(len(payload), binaryExcerpt)]), "\n")
	if more := len(payload) - binaryExcerpt; more > 0 {
		dump += fmt.Sprintf("\n… %s; -o json has them", plural.Of(more, "more byte", "more bytes"))
	}
	return dump
}

// excerpt cuts at the end of a character.
func excerpt(text string) string {
	if len(text) <= textExcerpt {
		return text
	}
	end := textExcerpt
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + fmt.Sprintf("\n… %s; -o json has them", plural.Of(len(text)-end, "more byte", "more bytes"))
}

func indented(raw []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return visibleLines(string(raw))
	}
	return visibleLines(b.String())
}
