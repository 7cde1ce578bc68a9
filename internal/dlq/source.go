package dlq

import (
	"cmp"
	"fmt"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// MainSource is the name of the desk's own database. No other source has it.
const MainSource = "main"

// maxSourceName is the length of the longest name of a source in bytes.
const maxSourceName = 40

// ValidSource reports whether a text is the name of a source, by the rule of outbox_source.name: a small letter, and then up to
// 39 small letters, digits and hyphens.
func ValidSource(name string) bool {
	if name == "" || len(name) > maxSourceName || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// WantSource says what the name of a source must be.
const WantSource = "the name of a source: a small letter, and then up to 39 small letters, digits and hyphens"

func refuseSource(name string) error {
	return fmt.Errorf("%w: source is %q; it must be %s", ErrRequest, name, WantSource)
}

// sourceOf returns the source that the headers of a record name. It is MainSource where they name none, or two, or what is no
// name.
func sourceOf(hs []message.Header) string {
	var source string
	for _, h := range hs {
		if h.Name != message.HeaderSource {
			continue
		}
		name := string(h.Value)
		if !ValidSource(name) || source != "" && source != name {
			return MainSource
		}
		source = name
	}
	return cmp.Or(source, MainSource)
}

// ofSource makes the decoded letter of an event or a task one of a source.
//
// The events and tasks of another source may have the ids of some that are here: a copy of a database repeats all of them. So ids
// of a named source begin with its name, which no id of the desk's own does, and OutboxID, by which the desk acts on its outbox,
// is not set.
func (l *Letter) ofSource(source string) {
	l.Source = source
	if isMain(source) {
		return
	}
	l.ownedBy(source)
	l.SourceOutboxID, l.OutboxID = l.OutboxID, nil
}

// ownedBy puts the name of a source before the ids of a letter.
func (l *Letter) ownedBy(source string) {
	l.ID = storableText(source+"/"+l.ID, maxIDBytes)
	l.Subject.ID = source + "/" + l.Subject.ID
}

// OwnTask is TaskUUID where the task is one of the desk's own database, otherwise uuid.Nil.
func (l *Letter) OwnTask() uuid.UUID {
	if isMain(l.Source) {
		return l.TaskUUID
	}
	return uuid.Nil
}

// isMain reports whether a source is the desk's own database. An empty one is.
func isMain(source string) bool { return source == "" || source == MainSource }
