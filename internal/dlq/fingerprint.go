package dlq

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider/message"
)

// FingerprintVersion is the rule that FingerprintOf follows. A new rule makes new groups and leaves the old ones.
// Version 0 is for investigations from before there were groups: error code, reason and topic, without the message.
const FingerprintVersion = 1

// Parts are what a fingerprint is of; they say why an investigation is in its group.
type Parts struct {
	// ErrorCode is the letter's error code.
	ErrorCode string `json:"error_code,omitempty"`
	// ErrorClass is the letter's error class.
	ErrorClass string `json:"error_class,omitempty"`
	// Reason counts where there is no error code.
	Reason Reason `json:"reason,omitempty"`
	// RootCause is the class of the exception behind the others, if the outer one only wraps it.
	RootCause string `json:"root_cause,omitempty"`
	// Message is the error message with everything that varies from case to case replaced; see Normalise. With RootCause,
	// it is the message of that.
	Message string `json:"message,omitempty"`
	// RootFrame is the first place in the program's own code, on the way up from the root cause.
	RootFrame string `json:"root_frame,omitempty"`
	// Topic is where the message was bound for or came from.
	Topic string `json:"topic,omitempty"`
	// DLQTopic is where the letter was read, if the letter names neither a topic that it comes from nor a template.
	DLQTopic string `json:"dlq_topic,omitempty"`
	// Template is the task's, for tasks: namespace and name.
	Template string `json:"template,omitempty"`
	// Source is the database that the letters come from, by its name, but for main, the desk's own.
	Source string `json:"source,omitempty"`
	// Names says that people split the group off another one: quoted names in the message count, too. Defaults to false.
	Names bool `json:"names,omitempty"`
}

// Fingerprint names a group of investigations.
type Fingerprint struct {
	// ID is the version, a colon and 32 hexadecimal digits.
	ID string
	// Exact is the ID of a narrower group, in which quoted names in the message count, too. There is such a group only if
	// people split one.
	Exact string
	// Parts are what ID is of, ExactParts what Exact is of.
	Parts, ExactParts Parts
}

// FingerprintOf tells the group that the investigation of a letter belongs to.
func FingerprintOf(l *Letter) Fingerprint {
	p := Parts{ErrorCode: l.ErrorCode, ErrorClass: l.ErrorClass, RootFrame: l.Root.Code(), Topic: l.OriginTopic, Template: l.Template}
	text := cmp.Or(l.Root.Outer, l.ErrorMessage)
	if l.Root.Wraps && l.Root.Class != "" {
		p.RootCause, text = l.Root.Class, l.Root.Message
	}
	if p.ErrorCode == "" {
		p.Reason = l.Reason
	}
	if !isMain(l.Source) {
		p.Source = l.Source
	}
	if p.Topic == "" && p.Template == "" {
		p.DLQTopic = l.DLQTopic
	}
	exact := p
	p.Message = Normalise(text)
	exact.Message, exact.Names = p.Message, true
	if strings.ContainsAny(text, "\"'") {
		exact.Message = normalise(text, true)
	}
	return Fingerprint{p.fingerprint(), exact.fingerprint(), p, exact}
}

func (p Parts) fingerprint() string {
	var room [1024]byte // enough for nearly all, without an allocation
	b := room[:0]
	for _, part := range []string{p.ErrorCode, p.ErrorClass, string(p.Reason), p.RootCause, p.Message, p.RootFrame, p.Topic, p.DLQTopic, p.Template} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part))) // so that no two lists of parts look the same
		b = append(b, part...)
	}
	if p.Names {
		b = append(b, "names"...)
	}
	if p.Source != "" {
		b = append(append(b, "source:"...), p.Source...)
	}
	sum := sha256.Sum256(b)
	return strconv.Itoa(FingerprintVersion) + ":" + hex.EncodeToString(sum[:16])
}

// Title is one line for people: what went wrong, in the words that are the same in all investigations of the group, with … for
// what varies. Error code and topic are not in it, because they stand beside it wherever it is shown.
func (p Parts) Title() string {
	title := strings.Join(nonEmpty(p.RootCause, p.pattern()), ": ")
	if title == "" {
		title = cmp.Or(p.ErrorCode, string(p.Reason), "nothing says what went wrong")
	}
	if p.RootFrame != "" {
		title += " at " + p.RootFrame
	}
	first, rest, _ := strings.Cut(title, " ")
	if strings.ContainsFunc(first, func(r rune) bool { return !unicode.IsLower(r) }) {
		return title // it begins with the name of a class or a program
	}
	r, size := utf8.DecodeRuneInString(first)
	return strings.TrimSpace(string(unicode.ToUpper(r)) + first[size:] + " " + rest)
}

// varying are the placeholders of Normalise. A title has one mark for all of them.
var varying = strings.NewReplacer("<time>", "…", "<duration>", "…", "<size>", "…", "<email>", "…", "##", "…", "#", "…")

// pattern is the message with one … for what varies.
func (p Parts) pattern() string {
	words := strings.Fields(varying.Replace(strings.TrimPrefix(p.Message, message.ErrInvalid.Error()+": ")))
	return strings.Join(slices.CompactFunc(words, func(a, b string) bool { return a == "…" && b == "…" }), " ")
}

// Explain says for each part what it is, for people who ask why investigations are in one group.
func (p Parts) Explain() []string {
	var lines []string
	for _, part := range []struct{ name, value string }{
		{"error code", p.ErrorCode}, {"error class", p.ErrorClass}, {"reason, as there is no error code", string(p.Reason)},
		{"root cause", p.RootCause}, {"message, without what varies", p.Message}, {"first place in the program's own code", p.RootFrame},
		{"topic", p.Topic}, {"dead-letter topic, as no other is known", p.DLQTopic}, {"template", p.Template},
		{"source", p.Source},
	} {
		if part.value != "" {
			lines = append(lines, part.name+": "+part.value)
		}
	}
	return lines
}

// Word is the reason in one word: the error code in small letters, or, where there is none, the first word of the
// message, which may be a number.
func Word(errorCode, message string) string {
	if errorCode != "" {
		return strings.ToLower(errorCode)
	}
	const around = ".,:;!?()[]{}<>\"'`…*=/\\|-"
	for i, field := range strings.Fields(Normalise(message)) {
		field = strings.Trim(field, around)
		if i == 0 && strings.HasPrefix(field, "#") {
			first := strings.TrimLeft(message, around+" \t\r\n")
			if end := digitsEnd(first, 0); end > 0 {
				return first[:end]
			}
		}
		if field = strings.Trim(field, around+"#"); field != "" {
			return strings.ToLower(field)
		}
	}
	apart := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }
	if fields := strings.FieldsFunc(message, apart); len(fields) > 0 {
		return strings.ToLower(cut(fields[0], maxNameBytes))
	}
	return unknownWord
}

// unknownWord is the word of what does not say why it failed.
const unknownWord = "unknown"

// nonEmpty returns the texts that are not empty.
func nonEmpty(texts ...string) []string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}
