package console

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// investigationsView is a page of the list of investigations.
type investigationsView struct {
	api.EntryList
	Rows   []entryRow
	Filter api.EntryFilter
	// Query is the filter as the search box has it.
	Query string
	// In is the list as a part of an address, so that the page of an investigation knows what comes next; empty for the whole list.
	In template.URL
	// Here is the page of the list as a part of an address, to come back to.
	Here  string
	Chips []chip
	// LeftOut says that a part of the search was not understood. The list has more than was asked for, so the page offers
	// nothing for many of it.
	LeftOut bool
	// All is the address of a plan for all that match; empty for a person who may make none.
	All           string
	Exports       exports
	Newer, Older  string
	Sentence      string
	Ascending     bool
	SortPath      string
	FilterIsEmpty bool
	// Cause is the title of the cause whose investigations are listed; empty for others.
	Cause string
}

// entryRow is a line of the list, with the key of its message; empty for none.
type entryRow struct {
	api.Entry
	Key string
}

// rowsOf adds what the rows of a list show besides the investigations.
func (v *visit) rowsOf(entries []api.Entry) ([]entryRow, error) {
	var ids []uuid.UUID
	for _, e := range entries {
		if e.SubjectType != dlq.SubjectTask {
			ids = append(ids, e.UUID)
		}
	}
	keys := map[uuid.UUID]string{}
	if len(ids) > 0 {
		var err error
		if keys, err = v.console.cfg.Investigations.Keys(v.ctx, ids); err != nil {
			return nil, err
		}
	}
	rows := make([]entryRow, len(entries))
	for i, e := range entries {
		rows[i] = entryRow{e, keys[e.UUID]}
	}
	return rows, nil
}

// words of the search box, and the fields of the filter that they stand for.
var searchWords = []struct{ word, field string }{
	{"is", "resolution_status"}, {"reason", "reason"}, {"why", "dlq_reason"}, {"type", "subject_type"}, {"subject", "subject_id"}, {"source", "source"}, {"topic", "topic"},
	{"code", "error_code"}, {"group", "group"}, {"who", "assignee"}, {"consumer", "consumer_group"}, {"dlq", "dlq_topic"}, {"event", "event_id"}, {"from", "from"}, {"to", "to"},
}

// statusNames are short words for statuses in the search box.
var statusNames = map[string]dlq.Status{"open": dlq.Pending, "resolved": dlq.ManuallyResolved, "failed": dlq.PermanentlyFailed, "cancelled": dlq.Cancelled}

// parseSearch reads the text of the search box: word:value as often as wanted, and a text that the error message contains. A value
// in quotes may have blanks. What cannot be understood is left out, as it was typed; hints say what can be said instead.
func parseSearch(text string) (q url.Values, out, hints []string) {
	q = url.Values{}
	var rest []string
	leave := func(part, format string, args ...any) {
		out, hints = append(out, part), append(hints, quoted(part)+" was left out: "+fmt.Sprintf(format, args...))
	}
	for _, part := range splitSearch(text) {
		word, value, found := strings.Cut(part, ":")
		i := slices.IndexFunc(searchWords, func(s struct{ word, field string }) bool { return found && s.word == strings.ToLower(word) })
		if i < 0 || value == "" {
			if found && i < 0 && value != "" && isWord(word) && !strings.HasPrefix(value, "//") {
				leave(part, "the search has no word %s. Its words are %s. Put a text with a colon in quotes", quoted(word+":"), wordList())
				continue
			}
			rest = append(rest, strings.ReplaceAll(part, `"`, ""))
			continue
		}
		value = strings.Trim(value, `"`)
		field := searchWords[i].field
		if status, known := statusNames[strings.ToLower(value)]; known && field == "resolution_status" {
			value = string(status)
		}
		if q.Has(field) {
			leave(part, "a search takes %s once", quoted(searchWords[i].word+":"))
			continue
		}
		if err := checkField(field, value); err != nil {
			want := err.Want
			if field == "resolution_status" {
				want = "one of " + strings.Join(slices.Sorted(maps.Keys(statusNames)), ", ")
			}
			leave(part, "%s takes %s", quoted(searchWords[i].word+":"), want)
			continue
		}
		q.Set(field, value)
	}
	if len(rest) > 0 {
		q.Set("text", strings.Join(rest, " "))
	}
	return q, out, hints
}

// checkField reports what the API says against a value of a field of the filter.
func checkField(name, value string) *api.FieldError {
	var f api.EntryFilter
	for _, field := range api.Fields(&f) {
		if field.Name == name {
			*field.Text = value
		}
	}
	_, err := f.Parse()
	wrong, _ := errors.AsType[*api.FieldError](err)
	return wrong
}

// isWord reports whether a text has letters alone.
func isWord(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
}

// wordList are the words of the search box.
func wordList() string {
	words := make([]string, len(searchWords))
	for i, s := range searchWords {
		words[i] = s.word
	}
	return strings.Join(words, ", ")
}

func splitSearch(text string) []string {
	quoted := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t' || r == '\n')
	})
}

// searchText is the filter as the search box has it.
func searchText(f api.EntryFilter) string {
	var parts []string
	for _, field := range api.Fields(&f) {
		value := *field.Text
		if value == "" || field.Name == "text" {
			continue
		}
		i := slices.IndexFunc(searchWords, func(s struct{ word, field string }) bool { return s.field == field.Name })
		if i < 0 {
			continue
		}
		for name, status := range statusNames {
			if field.Name == "resolution_status" && value == string(status) {
				value = name
			}
		}
		if strings.ContainsAny(value, " \t") {
			value = `"` + value + `"`
		}
		parts = append(parts, searchWords[i].word+":"+value)
	}
	if strings.Contains(f.Text, ":") && !strings.Contains(f.Text, `"`) {
		parts = append(parts, `"`+f.Text+`"`)
	} else if f.Text != "" {
		parts = append(parts, f.Text)
	}
	return strings.Join(parts, " ")
}

// filterOf reads the filter from the address, as the API does.
func (v *visit) filterOf() (f api.EntryFilter, q url.Values) {
	q = url.Values{}
	for _, field := range api.Fields(&f) {
		if *field.Text = v.param(field.Name); *field.Text != "" {
			q.Set(field.Name, *field.Text)
		}
	}
	return f, q
}

// list is the filter and the order of a list; empty for the whole list, the newest first.
func (v *visit) list() url.Values {
	_, q := v.filterOf()
	if dir := v.param("order_dir"); dir != "" {
		q.Set("order_dir", dir)
	}
	return q
}

func showInvestigations(v *visit) error {
	if text, asked := v.URL.Query()["q"]; asked {
		to := "/investigations"
		q, out, hints := parseSearch(strings.Join(text, " "))
		if len(q) > 0 {
			to += "?" + q.Encode()
		}
		if len(hints) > 0 {
			q.Set("left_out", strings.Join(out, " "))
			to = "/investigations?" + q.Encode()
			v.console.cookies.notice(v.writer, v.Request, "waiting", strings.Join(hints, ". ")+".")
		}
		http.Redirect(v.writer, v.Request, to, http.StatusSeeOther)
		v.wrote = true
		return nil
	}
	f, q := v.filterOf()
	view := investigationsView{Filter: f, Query: searchText(f), FilterIsEmpty: len(q) == 0, In: template.URL(v.list().Encode()), Here: v.URL.RawQuery}
	base := url.Values{}
	for name, values := range q {
		base[name] = values
	}
	view.Ascending = v.param("order_dir") == "asc"
	q.Set("order_dir", cmp.Or(v.param("order_dir"), "desc"))
	if after := v.param("after"); after != "" {
		q.Set("after", after)
	}
	q.Set("page_size", "25")
	for _, name := range []string{"limit", "cursor"} { // of the API's addresses: it says what is wrong with them
		if value, is := v.URL.Query()[name]; is {
			q[name] = value
			q.Del("page_size")
		}
	}
	found, err := list[api.EntryList](v, "/dlq", q)
	if err != nil {
		return err
	}
	view.EntryList = found
	if view.Rows, err = v.rowsOf(found.Items); err != nil {
		return err
	}
	view.Exports = v.exports("/investigations/export", q)
	if out := v.param("left_out"); out != "" { // the search box keeps it
		view.LeftOut, view.Query = true, strings.TrimSpace(view.Query+" "+out)
	}
	if v.frame.Has(string(access.Redrive)) && !view.LeftOut { // plans of every kind need it
		open, err := v.anyOpen(found.Items, base)
		if err != nil {
			return err
		}
		if open {
			view.All = "/plan?" + with(base, "all", "true")
		}
	}
	if found.Next != nil {
		view.Older = v.with("after", *found.Next)
	}
	if v.param("after") != "" {
		view.Newer = v.with("after", "")
	}
	view.SortPath = v.with("order_dir", map[bool]string{true: "", false: "asc"}[view.Ascending], "after", "")
	for _, status := range []struct {
		name  string
		value dlq.Status
	}{{"Open", dlq.Pending}, {"Resolved", dlq.ManuallyResolved}, {"Failed for good", dlq.PermanentlyFailed}, {"Cancelled", dlq.Cancelled}} {
		on := f.Status == string(status.value)
		value := string(status.value)
		if on {
			value = ""
		}
		view.Chips = append(view.Chips, chip{Name: status.name, Path: v.with("resolution_status", value, "after", ""), On: on})
	}
	for _, field := range api.Fields(&f) {
		if field.Name != "resolution_status" && *field.Text != "" {
			shown := field
			if field.Name == "group" && v.frame.Wrong == "" {
				title, err := v.titleOf(f.Group)
				if err != nil {
					return err
				}
				if title != "" {
					shown.Text, view.Cause = &title, title
				}
			}
			view.Chips = append(view.Chips, chip{Name: chipName(shown), Path: v.with(field.Name, "", "after", ""), On: true})
		}
	}
	view.Sentence = listSentence(found, f, len(base) == 0)
	v.frame.View = view
	return nil
}

// anyOpen reports whether a list has something that a plan of all that match would be about. shown are its rows, and filter is
// what selects it. A list that shows only closed ones may have open ones further on.
func (v *visit) anyOpen(shown []api.Entry, filter url.Values) (bool, error) {
	switch status := dlq.Status(filter.Get("resolution_status")); {
	case len(shown) == 0, status != "" && status != dlq.Pending:
		return false, nil
	case slices.ContainsFunc(shown, func(e api.Entry) bool { return e.Status == dlq.Pending }):
		return true, nil
	}
	q := maps.Clone(filter)
	q.Set("resolution_status", string(dlq.Pending))
	q.Set("page_size", "1")
	found, err := get[api.EntryList](v, "/dlq", q)
	return len(found.Items) > 0 || found.Incomplete, err
}

func chipName(field api.Field) string {
	name := field.Name
	for _, s := range searchWords {
		if s.field == name {
			name = s.word
		}
	}
	return name + ": " + oneLine(*field.Text, 60)
}

func with(q url.Values, name, value string) string {
	out := url.Values{}
	for n, values := range q {
		out[n] = values
	}
	out.Set(name, value)
	return out.Encode()
}

func listSentence(found api.EntryList, f api.EntryFilter, all bool) string {
	if found.Total == nil {
		return "Investigations"
	}
	about := ""
	if !*found.TotalExact {
		about = "About "
	}
	switch {
	case *found.Total == 0 && all:
		return "There is no investigation."
	case *found.Total == 0:
		return "Nothing matches."
	case f.Status == string(dlq.Pending):
		return about + some(*found.Total, "investigation is open.", "investigations are open.")
	case all:
		return about + some(*found.Total, "investigation.", "investigations.")
	}
	return about + some(*found.Total, "investigation matches.", "investigations match.")
}
