package console

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// letterView is an investigation with the dead letter to read.
type letterView struct {
	api.Detail
	Words stateWords
	Title string
	// Where is the topic, or the task's template.
	Where string
	// Newest is its newest dead letter; nil where it has none.
	Newest *api.Letter
	// Key is the message's key, Headers are its headers.
	Key     string
	Headers []pair
	Body    body
	// Revealed says that the bytes are shown as they are, unredacted.
	Revealed bool
	// Path is the page that it is on, for the ways to show the payload.
	Path string
	// Task is the snapshot of a task, which has no payload.
	Task []piece
	// Redrivable says that its message can be sent again now, and WhyNot why not.
	Redrivable bool
	WhyNot     string
	// TooLarge warns that the message fails again as it is; empty where that is not known.
	TooLarge string
	// Before says what its predecessor is: of the same event, what it was sent again from, or the last of its cause.
	Before string
	// Unreadable says that its headers cannot be read, so that it is sent with other ones alone.
	Unreadable bool
	// Form is what the form for another payload and other headers has; nil before the message is shown as it is.
	Form *editForm
	// Typed are the texts of a form that was refused, where the page has no form for them.
	Typed []pair
	// In is the list that it was reached from, as the query of an address; Previous and Next are the addresses of its neighbours
	// there, empty for none.
	In             template.URL
	Previous, Next string
	// Activity is what was done with it, the newest first.
	Activity []deedRow
	// Thread is what people wrote about it; nil while the payload is revealed.
	Thread *threadView
}

// editForm is a message as a form changes it.
type editForm struct {
	// Payload is the payload; nil where a form would change it by itself, and where it is empty or large.
	Payload *string
	// Headers are names and values, one a line; nil where a form would change them by itself.
	Headers *string
}

// letterOf is an investigation as its page shows it.
func letterOf(d api.Detail, as string) *letterView {
	v := &letterView{Detail: d, Words: statusWords(d.Status), Title: oneLine(d.Message, 400), Where: text(d.Topic), Path: "/investigations/" + d.ID, Activity: entryActivity(d)}
	if len(d.Letters) > 0 {
		v.Newest = &d.Letters[0]
	}
	if d.SubjectType == dlq.SubjectTask {
		v.Where = "task " + d.SubjectID
		v.Task, _ = prettyJSON(d.Snapshot[:min(len(d.Snapshot), maxShown)])
		v.Body.None = "It is about a task, which carries no message."
	} else {
		var c carried
		_ = json.Unmarshal(d.Snapshot, &c) // what cannot be read is not shown
		v.Key, v.Headers, v.Body = keyText(c), headerPairs(c.Headers), showCarried(c, as)
	}
	switch {
	case d.SubjectType == dlq.SubjectTask:
		v.WhyNot = "A task is not sent again; its steps are."
	case d.Status != dlq.Pending:
		v.WhyNot = "It is closed."
	case d.Redrive != nil && *d.Redrive == "queued":
		v.WhyNot = "It is on its way already."
	default:
		v.Redrivable = true
		if isTooLarge(text(d.ErrorCode)) {
			v.TooLarge = sentence(strings.Replace(tooLargeText(1, "", text(d.Topic), ""), "1 was", "This message was", 1))
		}
		if v.Unreadable = slices.ContainsFunc(v.Headers, func(h pair) bool { return h.Name == message.HeaderInvalidHeaders }); v.Unreadable {
			v.WhyNot = "Its headers cannot be read, so it cannot be sent as it is. Plan how, and give headers there, or change it below."
		}
	}
	return v
}

func showLetter(v *visit) error {
	d, err := get[api.Detail](v, "/dlq/"+v.id(), nil)
	if err != nil {
		return err
	}
	l := letterOf(d, v.param("as"))
	err = together(
		into(&l.Before, func() (string, error) { return v.before(d) }),
		into(&l.Thread, func() (*threadView, error) { return v.threadOf("/dlq/"+v.id(), l.Path) }),
		func() error { return v.readNeighbours(l) },
	)
	if err != nil {
		return err
	}
	v.frameLetter(l)
	return nil
}

// readNeighbours finds what comes before and behind an investigation in the list that it was reached from.
func (v *visit) readNeighbours(l *letterView) error {
	q := v.list()
	found, err := get[api.Neighbours](v, "/dlq/"+v.id()+"/neighbours", q)
	if err != nil {
		return err
	}
	l.In = template.URL(q.Encode()) // which escapes what addresses give a meaning
	at := func(id *uuid.UUID) string {
		if id == nil {
			return ""
		}
		to := "/investigations/" + id.String()
		if l.In != "" {
			to += "?" + string(l.In)
		}
		return to
	}
	l.Previous, l.Next = at(found.Previous), at(found.Next)
	return nil
}

// before says what the predecessor of an investigation is.
func (v *visit) before(d api.Detail) (string, error) {
	if d.Predecessor == nil {
		return "", nil
	}
	p, err := get[api.Detail](v, "/dlq/"+d.Predecessor.String(), nil)
	switch {
	case err != nil && told(err).Code == httpapi.NotFound:
		return "an investigation that was removed", nil
	case err != nil:
		return "", err
	case p.SubjectID == d.SubjectID:
		return "the earlier investigation of the same " + string(d.SubjectType), nil
	case len(p.Redrives) > 0:
		return "the investigation that this message was sent again from", nil
	}
	return "the last investigation of its cause before that was resolved; it is about another " + string(d.SubjectType), nil
}

func (v *visit) frameLetter(l *letterView) {
	v.frame.under(crumb{"Investigations", "/investigations"}, cmp.Or(text(l.ErrorCode), l.Reason)+" on "+clip(l.Where, 80))
	v.frame.View = l
}

// revealLetter shows the bytes as they are. The API writes into the audit log who looks.
func revealLetter(v *visit, as string) error {
	d, err := get[api.Detail](v, "/dlq/"+v.id(), nil)
	if err != nil {
		return err
	}
	revealed, err := get[api.Letter](v, "/dlq/"+v.id()+"/payload", nil)
	if err != nil {
		return err
	}
	l := letterOf(d, as)
	if l.Before, err = v.before(d); err != nil {
		return err
	}
	l.Revealed = true
	raw := bytesOf(revealed.Payload)
	switch {
	case revealed.Payload == nil && revealed.PayloadKind == dlq.Reference:
		l.Body = body{Kind: "reference", None: "The record that the dead letter points to is not there any more."}
	case revealed.Payload == nil:
		l.Body = body{Kind: "tombstone", None: "It is a tombstone: Kafka’s null."}
	default:
		l.Body = showBytes(raw, false, as)
	}
	l.Key, l.Headers = string(bytesOf(revealed.Key)), headerPairs(revealed.Headers)
	l.Form = &editForm{}
	if len(raw) <= maxShown && len(raw) > 0 && !needsCare(raw) {
		l.Form.Payload = new(string(raw))
	}
	if lines := headerLines(revealed.Headers); lines != "" || len(l.Headers) == 0 || l.Unreadable {
		l.Form.Headers = &lines
	}
	if err := v.readNeighbours(l); err != nil {
		return err
	}
	v.frameLetter(l)
	return nil
}

// bytesOf are the bytes that the API shows as JSON, text or base64.
func bytesOf(b *api.Bytes) []byte {
	if b == nil {
		return nil
	}
	switch value := b.Value.(type) {
	case json.RawMessage:
		return value
	case string:
		if b.Encoding == "base64" {
			raw, _ := base64.StdEncoding.DecodeString(value) // the API made it
			return raw
		}
		return []byte(value)
	}
	return nil
}

// maxHeaderLines is how long headers may be that a form shows.
const maxHeaderLines = 16 << 10

// headerLines are the headers that a message was meant to have, as a form has them, and none of ours; empty where a form would
// change them, or where they are very long. Of headers that the relay could not read, a value that is no text is its JSON.
func headerLines(raw json.RawMessage) string {
	rows := headerRows(raw)
	unread := slices.IndexFunc(rows, func(row []json.RawMessage) bool { return plainJSON(row[0]) == message.HeaderInvalidHeaders })
	if unread >= 0 { // it has the readable ones, too
		if meant := headerRows(json.RawMessage(plainJSON(rows[unread][1]))); meant != nil {
			rows = meant
		}
	}
	var lines []string
	for _, row := range rows {
		name, value := plainJSON(row[0]), plainJSON(row[1])
		if message.Reserved(name) {
			continue
		}
		isText := len(row[1]) > 0 && row[1][0] == '"'
		if !isText && (unread < 0 || string(row[1]) == "null" || snapshotText(row[1]) != value) { // null, or bytes
			return ""
		}
		if name == "" || name != strings.TrimSpace(name) || strings.ContainsAny(name, ":") || strings.ContainsAny(name+value, "\r\n") || needsCare([]byte(name+value)) {
			return ""
		}
		lines = append(lines, name+": "+value)
	}
	if text := strings.Join(lines, "\n"); len(text) <= maxHeaderLines {
		return text
	}
	return ""
}

// headerRows are headers as names and values: of pairs, or of an object, in their order. nil for anything else.
func headerRows(raw json.RawMessage) (rows [][]json.RawMessage) {
	if json.Unmarshal(raw, &rows) == nil {
		if slices.ContainsFunc(rows, func(row []json.RawMessage) bool { return len(row) != 2 }) {
			return nil
		}
		return rows
	}
	rows = nil
	object := json.NewDecoder(bytes.NewReader(raw))
	if begin, err := object.Token(); err != nil || begin != json.Delim('{') {
		return nil
	}
	for object.More() {
		var name, value json.RawMessage
		key, err := object.Token()
		if err == nil {
			name, _ = json.Marshal(key) // a text always can be
			err = object.Decode(&value)
		}
		if err != nil {
			return nil // its end is missing
		}
		rows = append(rows, []json.RawMessage{name, value})
	}
	return rows
}

// parseHeaderLines reads headers, one a line: name, colon, value.
func parseHeaderLines(text string) ([][]string, error) {
	var out [][]string
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !found || name == "" {
			return nil, &httpapi.Error{Code: httpapi.Validation, Message: fmt.Sprintf("Line %d of the headers has no name and colon; write name: value", i+1)}
		}
		out = append(out, []string{name, strings.TrimPrefix(value, " ")})
	}
	return out, nil
}

func changeLetter(v *visit) (string, error) {
	back := "/investigations/" + v.id()
	change := map[string]any{}
	switch v.FormValue("what") {
	case "take":
		change["assignee"], change["if_assignee"] = v.person.Name, ""
	case "assign":
		change["assignee"] = strings.TrimSpace(v.FormValue("assignee"))
	case "notes":
		change["resolution_notes"] = v.FormValue("notes")
	case "resolve":
		change["resolution_status"] = cmp.Or(v.FormValue("status"), string(dlq.ManuallyResolved))
		change["resolution_notes"], change["resolved_by"] = v.FormValue("notes"), v.person.Name
	}
	_, err := ask[any](v, http.MethodPatch, "/dlq/"+v.id(), nil, change)
	if err != nil && v.FormValue("what") == "take" && told(err).Code == httpapi.Conflict {
		if now, failed := get[api.Detail](v, "/dlq/"+v.id(), nil); failed == nil {
			err = taken(now.Assignee)
		}
	}
	if err == nil {
		v.say("It is written.")
	}
	return back, err
}

// sendLetter sends one message again, changed where the form says how. A refusal shows what the form had.
func sendLetter(v *visit) (string, error) {
	back := "/investigations/" + v.id()
	asked, err := v.send()
	if err == nil && asked {
		v.say("Its source was asked to send it, and has not answered yet. It is asked until it does.")
	} else if err == nil {
		v.say("It is sent. It closes by itself when it arrives.")
	} else if v.FormValue("what") == "edit" {
		v.keepEdit(err)
	}
	return back, err
}

// send reports whether the source was asked, and has not answered yet.
func (v *visit) send() (asked bool, err error) {
	body := map[string]any{"ids": []string{v.PathValue("id")}}
	if v.FormValue("what") == "edit" {
		edit := map[string]any{}
		if v.Form.Has("payload") {
			edit["payload_text"] = v.FormValue("payload")
		}
		if v.Form.Has("headers") {
			headers, err := parseHeaderLines(v.FormValue("headers"))
			if err != nil {
				return false, err
			}
			edit["headers"] = append([][]string{}, headers...)
		}
		body["edit"] = edit
	}
	done, err := ask[api.Requeued](v, http.MethodPost, "/dlq/requeue", nil, body)
	if err == nil && len(done.Skipped) > 0 {
		why := whySkipped(done.Skipped[0].Reason)
		if done.Skipped[0].Reason == dlq.SourceAway { // it says since when
			why = sentence(done.Skipped[0].Explanation)
		}
		err = &httpapi.Error{Code: httpapi.Conflict, Message: "It was not sent. " + why}
	}
	return len(done.Asked) > 0, err
}

// keepEdit shows the page of an investigation with the form as it was sent, and why it was refused. Where the message cannot be
// sent any more, the page has what was typed, to be copied; so has the error page where the investigation cannot be shown.
// Values that the person did not write stay redacted: this is no audited look.
func (v *visit) keepEdit(why error) {
	v.wrote = true
	d, err := get[api.Detail](v, "/dlq/"+v.id(), nil)
	if err != nil {
		v.console.fail(v, why)
		return
	}
	l := letterOf(d, "")
	if l.Before, err = v.before(d); err != nil {
		l.Predecessor = nil // it matters less than what was typed
	}
	if err := v.readNeighbours(l); err != nil {
		l.Previous, l.Next = "", ""
	}
	kept := "What you typed is below."
	if l.Redrivable {
		kept = "What you typed is still in the form below."
		l.Form = &editForm{}
		if v.Form.Has("payload") {
			l.Form.Payload = new(v.FormValue("payload"))
		}
		if v.Form.Has("headers") {
			l.Form.Headers = new(v.FormValue("headers"))
		}
	} else {
		l.Typed = typedIn(v.Request)
	}
	v.frameLetter(l)
	v.frame.NoticeKind, v.frame.Notice = "waiting", refusal(why)+" "+kept
	v.console.write(v.writer, v.Request, told(why).Status(), "letter", v.frame)
}

// fetchLetter asks the brokers for the record that a dead letter points to.
func fetchLetter(v *visit) (string, error) {
	_, err := ask[any](v, http.MethodPost, "/dlq/"+v.id()+"/fetch", nil, nil)
	if err == nil {
		v.say("The brokers were asked for the record.")
	}
	return "/investigations/" + v.id(), err
}
