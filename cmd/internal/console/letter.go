package console

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
)

// letterView is an investigation with the letter to read.
type letterView struct {
	api.Detail
	Words stateWords
	Title string
	// Where is the topic, or the task's template.
	Where string
	// Newest is its newest letter; nil where it has none.
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
	// Editable is its payload where a form can change it without harm; empty otherwise.
	Editable string
	// HeaderLines are headers and their values as the form for new ones has them, one a line.
	HeaderLines string
}

// letterOf is an investigation as its page shows it.
func letterOf(d api.Detail, as string) *letterView {
	v := &letterView{Detail: d, Words: statusWords(d.Status), Title: oneLine(d.Message, 400), Where: text(d.Topic), Path: "/investigations/" + d.ID}
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
	}
	return v
}

func showLetter(v *visit) error {
	d, err := get[api.Detail](v, "/dlq/"+v.id(), nil)
	if err != nil {
		return err
	}
	v.frameLetter(letterOf(d, v.param("as")))
	return nil
}

func (v *visit) frameLetter(l *letterView) {
	v.frame.under(crumb{"Investigations", "/investigations"}, cmp.Or(text(l.ErrorCode), l.Reason)+" on "+clip(l.Where, 80))
	v.frame.View = l
}

// revealLetter shows the bytes as they are. The API writes into the audit log who looks.
func revealLetter(v *visit) (string, error) {
	back := "/investigations/" + v.id()
	d, err := get[api.Detail](v, "/dlq/"+v.id(), nil)
	if err != nil {
		return back, err
	}
	var q url.Values
	if why := strings.TrimSpace(v.FormValue("why")); why != "" {
		q = url.Values{"why": {why}}
	}
	revealed, err := get[api.Letter](v, "/dlq/"+v.id()+"/payload", q)
	if err != nil {
		return back, err
	}
	l := letterOf(d, v.FormValue("as"))
	l.Revealed = true
	raw := bytesOf(revealed.Payload)
	switch {
	case revealed.Payload == nil && revealed.PayloadKind == dlq.Reference:
		l.Body = body{Kind: "reference", None: "The record that the letter points to is not there any more."}
	case revealed.Payload == nil:
		l.Body = body{Kind: "tombstone", None: "It is a tombstone: Kafka’s null."}
	default:
		l.Body = showBytes(raw, v.FormValue("as"))
	}
	l.Key, l.Headers = string(bytesOf(revealed.Key)), headerPairs(revealed.Headers)
	if len(raw) <= maxShown && len(raw) > 0 && !needsCare(raw) {
		l.Editable = string(raw)
	}
	l.HeaderLines = headerLines(revealed.Headers)
	v.frameLetter(l)
	v.console.write(v.writer, v.Request, http.StatusOK, "letter", v.frame)
	v.wrote = true
	return "", nil
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

// headerLines are headers as a form has them; empty where a form would change them, or where they are very long.
func headerLines(raw json.RawMessage) string {
	var headers [][]*string
	if json.Unmarshal(raw, &headers) != nil {
		return "" // a value that is bytes
	}
	var lines []string
	for _, h := range headers {
		if len(h) != 2 || h[0] == nil || h[1] == nil {
			return ""
		}
		name, value := *h[0], *h[1]
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
		change["assignee"] = v.person.Name
	case "assign":
		change["assignee"] = strings.TrimSpace(v.FormValue("assignee"))
	case "notes":
		change["resolution_notes"] = v.FormValue("notes")
	case "resolve":
		change["resolution_status"] = cmp.Or(v.FormValue("status"), string(dlq.ManuallyResolved))
		change["resolution_notes"], change["resolved_by"] = v.FormValue("notes"), v.person.Name
	}
	_, err := ask[any](v, http.MethodPatch, "/dlq/"+v.id(), nil, change)
	if err == nil {
		v.say("It is written.")
	}
	return back, err
}

// sendLetter sends one message again, changed where the form says how.
func sendLetter(v *visit) (string, error) {
	back := "/investigations/" + v.id()
	body := map[string]any{"ids": []string{v.PathValue("id")}}
	if v.FormValue("what") == "edit" {
		edit := map[string]any{}
		if v.Form.Has("payload") {
			edit["payload_text"] = v.FormValue("payload")
		}
		if v.Form.Has("headers") {
			headers, err := parseHeaderLines(v.FormValue("headers"))
			if err != nil {
				return back, err
			}
			edit["headers"] = append([][]string{}, headers...)
		}
		body["edit"] = edit
	}
	done, err := ask[api.Requeued](v, http.MethodPost, "/dlq/requeue", nil, body)
	if err != nil {
		return back, err
	}
	if len(done.Skipped) > 0 {
		return back, &httpapi.Error{Code: httpapi.Conflict, Message: "It was not sent: " + done.Skipped[0].Explanation}
	}
	v.say("It is sent. It closes by itself when it arrives.")
	return back, nil
}

// fetchLetter asks the brokers for the record that a letter points to.
func fetchLetter(v *visit) (string, error) {
	_, err := ask[any](v, http.MethodPost, "/dlq/"+v.id()+"/fetch", nil, nil)
	if err == nil {
		v.say("The brokers were asked for the record.")
	}
	return "/investigations/" + v.id(), err
}
