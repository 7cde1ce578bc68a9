package console

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
)

// investigationsView is a page of the list of investigations.
type investigationsView struct {
	api.EntryList
	Filter api.EntryFilter
	// Query is the filter as the search box has it.
	Query string
	Chips []chip
	// All is the address of a plan for all that match; CSV and JSON are the addresses of the exports.
	All           string
	CSV, JSON     string
	Newer, Older  string
	Sentence      string
	Ascending     bool
	SortPath      string
	FilterIsEmpty bool
}

// words of the search box, and the fields of the filter that they stand for.
var searchWords = []struct{ word, field string }{
	{"is", "resolution_status"}, {"reason", "reason"}, {"why", "dlq_reason"}, {"type", "subject_type"}, {"subject", "subject_id"}, {"topic", "topic"},
	{"code", "error_code"}, {"group", "group"}, {"who", "assignee"}, {"consumer", "consumer_group"}, {"dlq", "dlq_topic"}, {"event", "event_id"}, {"from", "from"}, {"to", "to"},
}

// statusNames are short words for statuses in the search box.
var statusNames = map[string]dlq.Status{"open": dlq.Pending, "resolved": dlq.ManuallyResolved, "failed": dlq.PermanentlyFailed, "cancelled": dlq.Cancelled}

// parseSearch reads the text of the search box: word:value as often as wanted, and a text that the error message contains. The
// values are checked by the filter of the API. A value in quotes may have blanks.
func parseSearch(text string) url.Values {
	q := url.Values{}
	var rest []string
	for _, part := range splitSearch(text) {
		word, value, found := strings.Cut(part, ":")
		i := slices.IndexFunc(searchWords, func(s struct{ word, field string }) bool { return found && s.word == strings.ToLower(word) })
		if i < 0 || value == "" {
			rest = append(rest, strings.ReplaceAll(part, `"`, ""))
			continue
		}
		value = strings.Trim(value, `"`)
		if status, known := statusNames[strings.ToLower(value)]; known && word == "is" {
			value = string(status)
		}
		q.Set(searchWords[i].field, value)
	}
	if len(rest) > 0 {
		q.Set("text", strings.Join(rest, " "))
	}
	return q
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
	if f.Text != "" {
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

func showInvestigations(v *visit) error {
	if text, asked := v.URL.Query()["q"]; asked {
		to := "/investigations"
		if q := parseSearch(strings.Join(text, " ")); len(q) > 0 {
			to += "?" + q.Encode()
		}
		http.Redirect(v.writer, v.Request, to, http.StatusSeeOther)
		v.wrote = true
		return nil
	}
	f, q := v.filterOf()
	view := investigationsView{Filter: f, Query: searchText(f), FilterIsEmpty: len(q) == 0}
	base := url.Values{}
	for name, values := range q {
		base[name] = values
	}
	dir := "desc"
	if view.Ascending = v.param("order_dir") == "asc"; view.Ascending {
		dir = "asc"
	}
	q.Set("order_dir", dir)
	if after := v.param("after"); after != "" {
		q.Set("after", after)
	}
	q.Set("page_size", "25")
	found, err := get[api.EntryList](v, "/dlq", q)
	if err != nil {
		return err
	}
	view.EntryList = found
	view.CSV, view.JSON = "/investigations/export?"+with(base, "format", "csv"), "/investigations/export?"+with(base, "format", "json")
	view.All = "/plan?" + with(base, "all", "true")
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
			view.Chips = append(view.Chips, chip{Name: chipName(field), Path: v.with(field.Name, "", "after", ""), On: true})
		}
	}
	view.Sentence = listSentence(found, f, len(base) == 0)
	v.frame.View = view
	return nil
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

// maxExport is how many rows an export has at most.
const maxExport = 100_000

// exportInvestigations sends the whole list, page by page, as it is read.
func exportInvestigations(v *visit) error {
	_, q := v.filterOf()
	format := v.param("format")
	if format != "csv" && format != "json" {
		return &httpapi.Error{Code: httpapi.Validation, Message: "The format is csv or json."}
	}
	q.Set("page_size", "100")
	page, err := get[api.EntryList](v, "/dlq", q)
	if err != nil {
		return err
	}
	v.wrote = true
	name := "investigations-" + time.Now().UTC().Format("20060102-150405") + "." + format
	v.writer.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	var row func(api.Entry) error
	var end func() error
	if format == "csv" {
		v.writer.Header().Set("Content-Type", "text/csv; charset=utf-8")
		row, end = csvRows(v.writer)
	} else {
		v.writer.Header().Set("Content-Type", "application/json; charset=utf-8")
		row, end = jsonRows(v.writer)
	}
	deadline := http.NewResponseController(v.writer)
	for n := 0; ; {
		for _, e := range page.Items {
			if err := row(e); err != nil {
				return nil // the browser is gone
			}
			n++
		}
		if page.Next == nil || n >= maxExport {
			return end()
		}
		_ = deadline.SetWriteDeadline(time.Now().Add(time.Minute)) // a recorder in memory has none
		q.Set("after", *page.Next)
		if page, err = get[api.EntryList](v, "/dlq", q); err != nil {
			v.console.log.Warn("an export ended early", "rows", n, "err", err)
			panic(http.ErrAbortHandler) // the file is cut, and the browser sees that
		}
	}
}

func csvRows(w http.ResponseWriter) (row func(api.Entry) error, end func() error) {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"id", "status", "topic", "error_code", "reason", "message", "subject_type", "subject_id", "retry_count", "occurrences", "assignee", "created_at", "resolved_at", "group"})
	return func(e api.Entry) error {
			resolved, group := "", ""
			if e.ResolvedAt != nil {
				resolved = e.ResolvedAt.UTC().Format(time.RFC3339Nano)
			}
			if e.Group != nil {
				group = e.Group.String()
			}
			cells := []string{e.ID, string(e.Status), text(e.Topic), text(e.ErrorCode), e.Reason, e.Message, string(e.SubjectType), e.SubjectID, strconv.Itoa(int(e.RetryCount)),
				strconv.Itoa(e.Occurrences), text(e.Assignee), e.CreatedAt.UTC().Format(time.RFC3339Nano), resolved, group}
			for i := range cells {
				cells[i] = cell(cells[i])
			}
			return out.Write(cells)
		}, func() error {
			out.Flush()
			return nil
		}
}

// cell is a text that a spreadsheet does not take for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsAny(text[:1], "=+-@\t\r") {
		return "'" + text
	}
	return text
}

func jsonRows(w http.ResponseWriter) (row func(api.Entry) error, end func() error) {
	out := json.NewEncoder(w)
	first := true
	_, _ = fmt.Fprint(w, "[")
	return func(e api.Entry) error {
			if !first {
				_, _ = fmt.Fprint(w, ",")
			}
			first = false
			return out.Encode(e)
		}, func() error {
			_, _ = fmt.Fprintln(w, "]")
			return nil
		}
}
