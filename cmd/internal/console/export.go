package console

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// maxExport is how many rows an export has at most.
const maxExport = 100_000

// exports are the addresses of a list as files.
type exports struct{ CSV, JSON string }

// exports are the addresses of the list that a path of ours sends for a query of the API.
func (v *visit) exports(path string, q url.Values) exports {
	kept := url.Values{}
	for name, values := range q {
		if name != "after" && name != "page_size" {
			kept[name] = values
		}
	}
	return exports{CSV: path + "?" + with(kept, "format", "csv"), JSON: path + "?" + with(kept, "format", "json")}
}

// column is a column of a CSV file.
type column[T any] struct {
	name string
	cell func(T) string
}

// export is a page that sends a list of the API whole, page by page as it is read. filters are the parameters that it hands on; nil for a
// list that has no pages.
func export[T any](name, path string, filters []string, columns []column[T]) func(*visit) error {
	return func(v *visit) error {
		q := url.Values{}
		if filters != nil { // the two lists of the brokers are whole
			q.Set("page_size", "100")
		}
		for _, f := range filters {
			if value := v.param(f); value != "" {
				q.Set(f, value)
			}
		}
		format := v.param("format")
		if format != "csv" && format != "json" {
			return &httpapi.Error{Code: httpapi.Validation, Message: "The format is csv or json."}
		}
		read := func() (api.List[T], error) {
			v.mayTake(patience)
			return patiently(v.ctx, func() (api.List[T], error) { return readPage[T](v, path, q) })
		}
		page, err := read()
		if err != nil {
			return err
		}
		v.wrote = true
		v.writer.Header().Set("Content-Disposition", `attachment; filename="`+name+"-"+time.Now().UTC().Format("20060102-150405")+"."+format+`"`)
		var rows rowWriter[T]
		switch format {
		case "csv":
			v.writer.Header().Set("Content-Type", "text/csv; charset=utf-8")
			rows = csvRows(v.writer, columns)
		default:
			v.writer.Header().Set("Content-Type", "application/json; charset=utf-8")
			rows = jsonRows[T](v.writer)
		}
		n, err := writePages(page, maxExport, rows, func(after string) (api.List[T], error) {
			q.Set("after", after)
			return read()
		})
		if err != nil {
			if v.ctx.Err() == nil { // the browser is there
				v.console.log.Warn("an export ended early", "list", name, "rows", n, "err", err)
			}
			panic(http.ErrAbortHandler) // the file is cut, and the browser sees that
		}
		return nil
	}
}

// rowWriter writes the rows of a file, and what is behind the last one.
type rowWriter[T any] struct {
	row func(T) error
	end func() error
}

// errTooLong ends an export: a file that is cut must not look like a whole one.
var errTooLong = fmt.Errorf("the list has more than %s rows; narrow the filter", count(maxExport))

// writePages writes a page and its next pages, and returns how many rows it wrote. A list of more than most rows is refused
// behind them.
func writePages[T any](page api.List[T], most int, rows rowWriter[T], next func(after string) (api.List[T], error)) (n int, err error) {
	for {
		for _, item := range page.Items {
			if n == most {
				return n, errTooLong
			}
			if err := rows.row(item); err != nil {
				return n, err
			}
			n++
		}
		if page.Next == nil {
			return n, rows.end()
		}
		if page, err = next(*page.Next); err != nil {
			return n, err
		}
	}
}

// patience is how long an export waits for the person's own limit of requests.
const patience = time.Minute

// patiently asks again each second while the person's limit of requests refuses, for a minute at most.
func patiently[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		got, err := ask()
		if e, is := errors.AsType[*httpapi.Error](err); !is || e.Code != httpapi.RateLimited || time.Since(began) >= patience {
			return got, err
		}
		if err := loop.Sleep(ctx, time.Second); err != nil {
			return got, err
		}
	}
}

// readPage reads a page of a list of the API. Some lists are types of their own, with more beside their items.
func readPage[T any](v *visit, path string, q url.Values) (api.List[T], error) {
	data, err := get[any](v, path, q)
	if err != nil {
		return api.List[T]{}, err
	}
	switch list := data.(type) {
	case api.EntryList:
		data = list.List
	case api.ConsumerGroups:
		data = list.List
	case api.Topics:
		data = list.List
	}
	if found, is := data.(api.List[T]); is {
		return found, nil
	}
	return api.List[T]{}, fmt.Errorf("%s returns a %T, which is no list of rows for an export", path, data)
}

// csvRows writes the names of the columns, and then rows.
func csvRows[T any](w io.Writer, columns []column[T]) rowWriter[T] {
	out := csv.NewWriter(w)
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	_ = out.Write(names) // the next row returns the error, too
	return rowWriter[T]{
		row: func(item T) error {
			cells := make([]string, len(columns))
			for i, c := range columns {
				cells[i] = cell(c.cell(item))
			}
			return out.Write(cells)
		},
		end: func() error {
			out.Flush()
			return out.Error()
		},
	}
}

// cell is a text that a spreadsheet does not take for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsAny(text[:1], "=+-@\t\r") {
		return "'" + text
	}
	return text
}

// jsonRows writes rows as one list of JSON.
func jsonRows[T any](w io.Writer) rowWriter[T] {
	out := json.NewEncoder(w)
	separator := "["
	return rowWriter[T]{
		row: func(item T) error {
			if _, err := io.WriteString(w, separator); err != nil {
				return err
			}
			separator = ","
			return out.Encode(item)
		},
		end: func() error {
			if separator == "," {
				separator = ""
			}
			_, err := io.WriteString(w, separator+"]\n")
			return err
		},
	}
}

// when is a time in a file; empty for none.
func when(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

var entryColumns = []column[api.Entry]{
	{"id", func(e api.Entry) string { return e.ID }}, {"source", func(e api.Entry) string { return e.Source }}, {"status", func(e api.Entry) string { return string(e.Status) }}, {"topic", func(e api.Entry) string { return text(e.Topic) }},
	{"error_code", func(e api.Entry) string { return text(e.ErrorCode) }}, {"reason", func(e api.Entry) string { return e.Reason }}, {"message", func(e api.Entry) string { return e.Message }},
	{"subject_type", func(e api.Entry) string { return string(e.SubjectType) }}, {"subject_id", func(e api.Entry) string { return e.SubjectID }},
	{"retry_count", func(e api.Entry) string { return strconv.Itoa(int(e.RetryCount)) }}, {"occurrences", func(e api.Entry) string { return strconv.Itoa(e.Occurrences) }},
	{"assignee", func(e api.Entry) string { return text(e.Assignee) }}, {"created_at", func(e api.Entry) string { return when(&e.CreatedAt) }},
	{"resolved_at", func(e api.Entry) string { return when(e.ResolvedAt) }}, {"group", func(e api.Entry) string { return text(e.Group) }},
}

var groupColumns = []column[api.Group]{
	{"id", func(g api.Group) string { return g.UUID.String() }}, {"source", func(g api.Group) string { return g.Source }}, {"state", func(g api.Group) string { return string(g.State) }}, {"title", func(g api.Group) string { return g.Title }},
	{"topic", func(g api.Group) string { return text(g.Topic) }}, {"error_code", func(g api.Group) string { return g.Parts.ErrorCode }},
	{"pending", func(g api.Group) string { return strconv.FormatInt(g.Pending, 10) }}, {"entries", func(g api.Group) string { return strconv.FormatInt(g.Entries, 10) }},
	{"occurrences", func(g api.Group) string { return strconv.FormatInt(g.Occurrences, 10) }}, {"assignee", func(g api.Group) string { return text(g.Assignee) }},
	{"first_seen_at", func(g api.Group) string { return when(&g.FirstSeenAt) }}, {"last_seen_at", func(g api.Group) string { return when(&g.LastSeenAt) }},
}

var operationColumns = []column[api.Operation]{
	{"id", func(o api.Operation) string { return o.UUID.String() }}, {"kind", func(o api.Operation) string { return string(o.Kind) }}, {"name", func(o api.Operation) string { return o.Name }},
	{"state", func(o api.Operation) string { return string(o.State) }}, {"actor", func(o api.Operation) string { return o.Actor }}, {"reason", func(o api.Operation) string { return text(o.Reason) }},
	{"items", func(o api.Operation) string { return strconv.FormatInt(o.Items, 10) }}, {"done", func(o api.Operation) string { return strconv.FormatInt(o.Done, 10) }},
	{"delivered", func(o api.Operation) string { return strconv.FormatInt(o.Delivered, 10) }}, {"came_back", func(o api.Operation) string { return strconv.FormatInt(o.CameBack, 10) }},
	{"skipped", func(o api.Operation) string { return strconv.FormatInt(o.Skipped, 10) }}, {"failed", func(o api.Operation) string { return strconv.FormatInt(o.Failed, 10) }},
	{"created_at", func(o api.Operation) string { return when(&o.CreatedAt) }}, {"started_at", func(o api.Operation) string { return when(o.StartedAt) }},
	{"finished_at", func(o api.Operation) string { return when(o.FinishedAt) }},
}

var eventColumns = []column[relay.EventStatus]{
	{"id", func(e relay.EventStatus) string { return strconv.FormatInt(e.ID, 10) }}, {"event_id", func(e relay.EventStatus) string { return e.EventID.String() }},
	{"kind", func(e relay.EventStatus) string { return e.Kind }}, {"topic", func(e relay.EventStatus) string { return e.Topic }}, {"key", func(e relay.EventStatus) string { return text(e.Key) }},
	{"status", func(e relay.EventStatus) string { return e.Status }}, {"state", func(e relay.EventStatus) string { return e.State }},
	{"attempts", func(e relay.EventStatus) string { return strconv.Itoa(e.Attempts) }}, {"last_error_code", func(e relay.EventStatus) string { return text(e.LastErrorCode) }},
	{"last_error_message", func(e relay.EventStatus) string { return text(e.LastErrorMessage) }}, {"created_at", func(e relay.EventStatus) string { return when(&e.CreatedAt) }},
	{"next_attempt_at", func(e relay.EventStatus) string { return when(e.NextAttemptAt) }}, {"sent_at", func(e relay.EventStatus) string { return when(e.SentAt) }},
}

var taskColumns = []column[ledger.Task]{
	{"id", func(t ledger.Task) string { return t.UUID.String() }}, {"namespace", func(t ledger.Task) string { return t.Namespace }}, {"name", func(t ledger.Task) string { return t.Name }},
	{"version", func(t ledger.Task) string { return t.Version }}, {"state", func(t ledger.Task) string { return t.State }}, {"error_reason", func(t ledger.Task) string { return text(t.ErrorReason) }},
	{"created_at", func(t ledger.Task) string { return when(&t.CreatedAt) }}, {"state_entered_at", func(t ledger.Task) string { return when(&t.StateEnteredAt) }},
	{"stale_flagged_at", func(t ledger.Task) string { return when(t.StaleFlaggedAt) }}, {"completed_at", func(t ledger.Task) string { return when(t.CompletedAt) }},
}

var auditColumns = []column[access.Done]{
	{"at", func(d access.Done) string { return when(&d.At) }}, {"actor", func(d access.Done) string { return d.Actor }}, {"key_id", func(d access.Done) string { return d.KeyID }},
	{"action", func(d access.Done) string { return d.Action }}, {"target_type", func(d access.Done) string { return d.TargetType }}, {"target_id", func(d access.Done) string { return d.TargetID }},
	{"details", func(d access.Done) string { return string(d.Details) }},
}

var holdColumns = []column[api.Hold]{
	{"id", func(h api.Hold) string { return h.ID }}, {"cause", func(h api.Hold) string { return string(h.Cause) }}, {"scope", func(h api.Hold) string { return string(h.Scope) }},
	{"topic", func(h api.Hold) string { return h.Topic }}, {"key", func(h api.Hold) string { return text(h.Key) }}, {"failure_code", func(h api.Hold) string { return text(h.FailureCode) }},
	{"error_code", func(h api.Hold) string { return text(h.ErrorCode) }}, {"error", func(h api.Hold) string { return text(h.Error) }}, {"parked", func(h api.Hold) string { return strconv.FormatInt(h.Parked, 10) }},
	{"held_at", func(h api.Hold) string { return when(&h.HeldAt) }}, {"next_probe_at", func(h api.Hold) string { return when(h.NextProbeAt) }},
}

var itemColumns = []column[api.OperationItem]{
	{"item", func(i api.OperationItem) string { return strconv.FormatInt(i.Item, 10) }}, {"dlq_entry_uuid", func(i api.OperationItem) string { return i.Entry.String() }},
	{"state", func(i api.OperationItem) string { return i.State }}, {"reason", func(i api.OperationItem) string { return text(i.Reason) }}, {"outcome", func(i api.OperationItem) string { return text(i.Outcome) }},
	{"successor_uuid", func(i api.OperationItem) string { return text(i.Successor) }},
	{"topic", func(i api.OperationItem) string { return text(i.Topic) }}, {"key", func(i api.OperationItem) string { return text(i.Key) }},
	{"event_id", func(i api.OperationItem) string { return text(i.EventID) }}, {"task_uuid", func(i api.OperationItem) string { return text(i.TaskUUID) }},
	{"dlq_reason", func(i api.OperationItem) string { return text(i.DLQReason) }}, {"error_code", func(i api.OperationItem) string { return text(i.ErrorCode) }},
}

// exportItems sends the items of an operation.
func exportItems(v *visit) error {
	return export("operation-items", "/operations/"+v.id()+"/items", []string{"state", "outcome"}, itemColumns)(v)
}

var consumerColumns = []column[api.ConsumerGroup]{
	{"group", func(g api.ConsumerGroup) string { return g.Name }}, {"state", func(g api.ConsumerGroup) string { return g.State }}, {"members", func(g api.ConsumerGroup) string { return strconv.Itoa(g.Members) }},
	{"lag", func(g api.ConsumerGroup) string { return strconv.FormatInt(g.Lag, 10) }}, {"standing", func(g api.ConsumerGroup) string { return strconv.Itoa(g.Standing) }},
	{"topics", func(g api.ConsumerGroup) string { return strings.Join(g.Topics, " ") }}, {"problem", func(g api.ConsumerGroup) string { return text(g.Problem) }},
}

var topicColumns = []column[api.Topic]{
	{"topic", func(t api.Topic) string { return t.Name }}, {"exists", func(t api.Topic) string { return strconv.FormatBool(t.Exists) }}, {"partitions", func(t api.Topic) string { return strconv.Itoa(t.Partitions) }},
	{"replicas", func(t api.Topic) string { return strconv.Itoa(t.Replicas) }}, {"leaderless", func(t api.Topic) string { return strconv.Itoa(t.Leaderless) }},
	{"under_replicated", func(t api.Topic) string { return strconv.Itoa(t.UnderReplicated) }}, {"problem", func(t api.Topic) string { return text(t.Problem) }},
}

// filterNames are the names of the fields of a filter of the API.
func filterNames(fields []api.Field) []string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}
