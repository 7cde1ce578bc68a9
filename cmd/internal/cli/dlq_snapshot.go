package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/dlq"
)

// How many lines of a message, and how many of its headers, an investigation shows, so that it fits a screen.
const (
	snapshotLines   = 16
	snapshotHeaders = 8
)

// showSnapshot prints what an investigation keeps of its message: who failed, key, headers and payload. Of a task it prints
// template, state and steps, and of anything else the beginning.
func showSnapshot(w io.Writer, raw json.RawMessage) {
	var s struct {
		ConsumerGroup string `json:"consumer_group"`
		LastHop       string `json:"last_hop"`
		Key           json.RawMessage
		KeyKind       string `json:"key_kind"`
		Headers       json.RawMessage
		Payload       json.RawMessage
		PayloadKind   string `json:"payload_kind"`
		PayloadBytes  *int64 `json:"payload_bytes"`
		Error         struct{ Stack string }
	}
	err := json.Unmarshal(raw, &s)
	if showTaskSnapshot(w, raw) {
		return
	}
	if err != nil || s.PayloadKind == "" {
		fmt.Fprintf(w, "\nAs it was:\n%s\n", firstLines(indented(raw), snapshotLines, "  "))
		return
	}
	fmt.Fprint(w, "\nMessage, as redaction lets it be seen (--payload shows it as it is):\n")
	key := string(s.Key)
	if s.KeyKind == string(dlq.Reference) {
		key = "not in the letter"
	} else if key == "null" {
		key = ""
	}
	_ = fields(w, [2]string{"  Failing group", s.ConsumerGroup}, [2]string{"  Last read from", s.LastHop}, [2]string{"  Key", firstCharacters(key, maxKey)})
	showHeaders(w, s.Headers)
	size := ""
	if s.PayloadBytes != nil {
		size = ", " + plural.Of(*s.PayloadBytes, "byte", "bytes")
	}
	fmt.Fprintf(w, "  Payload, %s%s\n", s.PayloadKind, size)
	if len(s.Payload) > 0 && string(s.Payload) != "null" {
		fmt.Fprintf(w, "%s\n", firstLines(indented(s.Payload), snapshotLines, "    "))
	}
	if s.Error.Stack != "" {
		fmt.Fprintf(w, "  Stack trace, %s: -o json has it\n", plural.Of(strings.Count(s.Error.Stack, "\n")+1, "line", "lines"))
	}
}

// showTaskSnapshot prints what a task was, and returns false where the snapshot is none of a task.
func showTaskSnapshot(w io.Writer, raw json.RawMessage) bool {
	var s struct {
		Task struct {
			State       string
			ErrorReason string `json:"error_reason"`
		}
		Template struct {
			Namespace string `json:"namespace_name"`
			Name      string `json:"task_name"`
			Version   string
		}
		Steps []struct {
			Name      string `json:"step_name"`
			Status    string
			LastError string `json:"last_error"`
		}
	}
	if json.Unmarshal(raw, &s) != nil || s.Template.Name == "" {
		return false
	}
	fmt.Fprint(w, "\nThe task as it was (-o json has all of it):\n")
	_ = fields(w, [2]string{"  Template", s.Template.Namespace + "/" + s.Template.Name + "@" + s.Template.Version}, [2]string{"  State", s.Task.State},
		[2]string{"  Error", s.Task.ErrorReason})
	for i, step := range s.Steps {
		if i == snapshotLines {
			fmt.Fprintf(w, "  … %s\n", plural.Of(len(s.Steps)-i, "more step", "more steps"))
			break
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("  Step  %s: %s %s", visible(step.Name), visible(step.Status), shorten(visible(step.LastError), maxCell)), " "))
	}
	return true
}

// showHeaders prints the first headers of a snapshot, each on a line.
func showHeaders(w io.Writer, raw json.RawMessage) {
	var pairs [][]any
	if json.Unmarshal(raw, &pairs) != nil {
		return
	}
	for i, pair := range pairs {
		if i == snapshotHeaders {
			fmt.Fprintf(w, "  … %s: -o json has them\n", plural.Of(len(pairs)-i, "more header", "more headers"))
			return
		}
		if len(pair) == 2 {
			value, _ := json.Marshal(pair[1])
			fmt.Fprintf(w, "  Header  %s: %s\n", visible(fmt.Sprint(pair[0])), shorten(visible(string(value)), 2*maxCell))
		}
	}
}

// firstLines is the beginning of a text, indented, with how much follows.
func firstLines(text string, most int, indent string) string {
	lines := strings.Split(text, "\n")
	more := ""
	if len(lines) > most {
		more = fmt.Sprintf("\n%s… %s: -o json has them", indent, plural.Of(len(lines)-most, "more line", "more lines"))
		lines = lines[:most]
	}
	for i, line := range lines {
		lines[i] = indent + shorten(line, 4*maxCell)
	}
	return strings.Join(lines, "\n") + more
}

// showNext prints what can be done with an investigation.
func showNext(w io.Writer, d *dlq.Detail) {
	e := &d.Entry
	fmt.Fprintln(w)
	if e.GroupUUID != uuid.Nil {
		fmt.Fprintf(w, "All of its cause:        postrider dlq groups %s\n", e.GroupUUID)
	}
	if d.Archived != nil {
		archived := api.NewArchivedTask(*d.Archived)
		fmt.Fprintf(w, "Its task was archived %s: %s.\n", moment(archived.ArchivedAt), archived.Explanation)
	}
	switch {
	case e.Status != dlq.Pending:
	case d.Archived != nil && e.Subject.Type == dlq.SubjectTask:
		fmt.Fprintf(w, "Next, to close it:       postrider dlq resolve %s --notes TEXT\n", e.UUID)
	case e.Subject.Type == dlq.SubjectTask && api.OtherSource(e.Source) != "":
		fmt.Fprintf(w, "Its task is in the database of the source %s: its steps are mended there.\n", e.Source)
		fmt.Fprintf(w, "Next, to close it:       postrider dlq resolve %s --notes TEXT\n", e.UUID)
	case e.Subject.Type == dlq.SubjectTask:
		fmt.Fprintf(w, "Next, its steps:         postrider task show %s\n", e.Subject.ID)
	case d.Stopped != nil:
		fmt.Fprintf(w, "Its task is in %s, and the event alone does not bring it back.\n", d.Stopped.State)
		fmt.Fprintf(w, "Next, with cause mended: postrider task retry %s\n", d.Stopped.UUID)
		fmt.Fprintf(w, "Or, the event alone:     %s\n", requeueOf(d))
		fmt.Fprintf(w, "Or, to close it:         postrider dlq resolve %s --notes TEXT\n", e.UUID)
	default:
		fmt.Fprintf(w, "Next, with cause mended: %s\n", requeueOf(d))
		fmt.Fprintf(w, "Or, to close it:         postrider dlq resolve %s --notes TEXT\n", e.UUID)
	}
	if e.Status == dlq.Pending && e.Subject.Type != dlq.SubjectTask && hasInvalidHeaders(d) {
		fmt.Fprint(w, "Some headers cannot be read: --header replaces all headers, once for each NAME=VALUE; --header-text sends each of them as the text of its value; --header-none sends none.\n")
	}
}

// requeueOf is the command that sends the message of an investigation again.
func requeueOf(d *dlq.Detail) string {
	command := "postrider dlq requeue " + d.UUID.String()
	if hasInvalidHeaders(d) {
		command += " --header NAME=VALUE"
	}
	return command
}

// hasInvalidHeaders reports whether the newest letter, whose message is sent again, has headers that cannot be read.
func hasInvalidHeaders(d *dlq.Detail) bool {
	if len(d.Letters) == 0 {
		return false
	}
	_, invalid := d.Letters[0].InvalidHeaders()
	return invalid
}
