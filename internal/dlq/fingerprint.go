package dlq

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// FingerprintVersion is the rule that FingerprintOf follows. A new rule makes new groups and leaves the old ones.
// Version 0 is for investigations from before there were groups: error code, reason and topic, without the message.
const FingerprintVersion = 1

// Parts are what a fingerprint is of; they say why an investigation is in its group.
type Parts struct {
	// ErrorCode and ErrorClass are the letter's.
	ErrorCode  string `json:"error_code,omitempty"`
	ErrorClass string `json:"error_class,omitempty"`
	// Reason counts where there is no error code.
	Reason Reason `json:"reason,omitempty"`
	// Message is the error message with everything that varies from case to case replaced; see Normalise.
	Message string `json:"message,omitempty"`
	// Topic is where the message was bound for or came from.
	Topic string `json:"topic,omitempty"`
	// DLQTopic is where the letter was read, if the letter names neither a topic that it comes from nor a template.
	DLQTopic string `json:"dlq_topic,omitempty"`
	// Template is the task's, for tasks: namespace and name.
	Template string `json:"template,omitempty"`
}

// Fingerprint names a group of investigations.
type Fingerprint struct {
	// ID is the version, a colon and 32 hexadecimal digits.
	ID    string
	Parts Parts
}

// FingerprintOf tells the group that the investigation of a letter belongs to.
func FingerprintOf(l *Letter) Fingerprint {
	p := Parts{ErrorCode: l.ErrorCode, ErrorClass: l.ErrorClass, Message: Normalise(l.ErrorMessage), Topic: l.OriginTopic, Template: l.Template}
	if p.ErrorCode == "" {
		p.Reason = l.Reason
	}
	if p.Topic == "" && p.Template == "" {
		p.DLQTopic = l.DLQTopic
	}
	return Fingerprint{p.fingerprint(), p}
}

func (p Parts) fingerprint() string {
	var room [1024]byte // enough for nearly all, without an allocation
	b := room[:0]
	for _, part := range []string{p.ErrorCode, p.ErrorClass, string(p.Reason), p.Message, p.Topic, p.DLQTopic, p.Template} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part))) // so that no two lists of parts look the same
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return strconv.Itoa(FingerprintVersion) + ":" + hex.EncodeToString(sum[:16])
}

// Title is one line for people.
func (p Parts) Title() string {
	title := strings.Join(given(p.ErrorCode, string(p.Reason), p.Message), ": ")
	if where := given(p.Template, p.Topic, p.DLQTopic); len(where) > 0 {
		title += " (" + where[0] + ")"
	}
	return title
}

// Explain says for each part what it is, for people who ask why investigations are in one group.
func (p Parts) Explain() []string {
	var lines []string
	for _, part := range []struct{ name, value string }{
		{"error code", p.ErrorCode}, {"error class", p.ErrorClass}, {"reason, as there is no error code", string(p.Reason)},
		{"message, without what varies", p.Message}, {"topic", p.Topic}, {"dead-letter topic, as no other is known", p.DLQTopic}, {"template", p.Template},
	} {
		if part.value != "" {
			lines = append(lines, part.name+": "+part.value)
		}
	}
	return lines
}

// Word is the reason in one word: the error code in small letters, or, where there is none, the first word of the
// message.
func Word(errorCode, message string) string {
	text := errorCode
	if text == "" {
		text = Normalise(message)
	}
	if errorCode == "" {
		for _, field := range strings.Fields(text) {
			if field = strings.Trim(field, ".,:;!?()[]{}<>\"'`…#*=/\\|-"); field != "" {
				return strings.ToLower(field)
			}
		}
		return unknownWord
	}
	return strings.ToLower(text)
}

// unknownWord is the word of what does not say why it failed.
const unknownWord = "unknown"

// given returns the texts that are not empty.
func given(texts ...string) []string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return out
}
