package console

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/cmd/internal/series"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// hostile are texts that change how a page is read, where a page lets them.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'; alert(1); '`, "javascript:alert(1)", "{{.Person.Name}}",
	"\u202egnp.exe", "\u2066\u2067\u2069", "a\u200bb", "\xff\xfe\x00", "\ufeff", "\u2028\u2029", "line\nline\r\n\ttab", strings.Repeat("x", 200_000), strings.Repeat("ä", 100_000),
	"</textarea></title><svg onload=alert(1)>", "\U000e0041", "\x1b[31m",
}

// pageOf renders every page that shows a text from outside, with the text everywhere.
func pageOf(t testing.TB, text string) []string {
	t.Helper()
	r, err := newRenderer()
	if err != nil {
		t.Fatal(err)
	}
	id, now, n := uuid.New(), time.Now(), int32(3)
	own := clip(text, 2000) // of people: the API bounds it, or the length of an address
	group := api.Group{UUID: id, Title: text, Topic: &text, State: dlq.GroupNew, Pending: 3, Entries: 3, FirstSeenAt: now, LastSeenAt: now, LastEntry: &id, Assignee: &own, Note: &own,
		Parts: dlq.Parts{ErrorCode: text, Message: text, Topic: text}}
	snapshot, _ := json.Marshal(map[string]any{"key": text, "key_kind": "inline", "headers": [][]any{{text, text}}, "payload": text, "payload_kind": "inline", "payload_encoding": "text"})
	group2 := text
	input2, _ := json.Marshal(map[string]any{text: text})
	detail := api.Detail{Entry: api.Entry{ID: id.String(), Message: text, Reason: text, Topic: &text, ErrorCode: &text, RootCause: &text, RootFrame: &text, SubjectID: text, SubjectType: dlq.SubjectEvent,
		Status: dlq.Pending, Assignee: &own, ResolutionNotes: &own, CreatedAt: now}, Snapshot: snapshot,
		Letters:    []api.Letter{{ID: text, DLQTopic: text, OriginTopic: &text, ConsumerGroup: &group2, ErrorMessage: &text, OriginPartition: &n}, {ErrorMessage: &text}},
		Operations: []api.Treatment{{Operation: id, Name: text, ItemState: "skipped", ItemReason: new(dlq.SkipReason(text))}},
		Audit:      []access.Done{{At: now, Actor: text, Action: "x"}}, Redrives: []api.Redrive{{Target: text, State: "queued"}}}
	operation := api.Operation{UUID: id, Kind: dlq.OpRedrive, Name: text, Reason: &text, Actor: text, State: dlq.Halted, Error: &text, Items: 5, Done: 3, CameBack: 1, CreatedAt: now,
		Plan: dlq.Plan{Items: 5, Topics: map[string]int64{text: 5}}, Options: dlq.OperationOptions{Headers: [][]string{{text, text}}, Target: text}}
	key := text
	hold := api.Hold{ID: "1", Scope: relay.ScopeKey, Topic: text, Key: &key, Cause: relay.CauseHalted, Error: &text, ErrorCode: &text, HeldAt: now, Parked: 3}
	c := cause{Group: group}
	f := &figures{At: now, Own: true, Causes: []cause{c}, Open: 1, Status: api.Status{Outbox: api.OutboxStatus{Holds: []api.Hold{hold}}, Operations: []api.Operation{operation}}}
	f.Short = pointsOf(api.Series{From: now.Add(-series.Short.Length()), To: now, StepSeconds: series.Short.Step().Seconds()})
	f.Long = pointsOf(api.Series{From: now.Add(-series.Long.Length()), To: now, StepSeconds: series.Long.Step().Seconds()})
	letter := letterOf(detail, "")
	letter.Revealed = true
	lines, err := json.Marshal([][]string{{"name", text}})
	if err != nil {
		t.Fatal(err)
	}
	letter.Form = &editForm{Payload: new(clip(text, maxShown)), Headers: new(headerLines(lines))}
	console := &Console{figures: &sampler{now: f, wake: make(chan struct{}, 1)}}
	v := &visit{Request: httptest.NewRequest("GET", "/", nil), console: console, person: access.Session{Name: text, Scopes: access.Scopes(), Sources: access.AllSources()}}
	var pages []string
	show := func(name string, view any) {
		frame := console.newFrame(v, page{pattern: "GET /x"})
		frame.Title, frame.View, frame.Name, frame.Notice, frame.NoticeKind = text, view, own, own, "fine"
		frame.Crumbs = []crumb{{text, "/"}, {Name: text}}
		page, err := r.render(name, frame)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pages = append(pages, string(page))
	}
	v.frame = console.newFrame(v, page{pattern: "GET /{$}"})
	v.showNow(f)
	show("now", v.frame.View)
	show("causes", causesView{Causes: []causeRow{v.frame.rowOf(c)}, Total: 1, Filter: api.GroupFilter{Text: own}})
	show("cause", causeView{GroupDetail: api.GroupDetail{Group: group, Why: []string{text}, Variants: []api.Variant{{Message: text, Newest: id, OpenedAt: now}, {Message: text, Newest: id, OpenedAt: now}}}, Words: groupWords(group.State), Letter: letter, Redrivable: true,
		Road: road{Steps: roadSteps(&operation), Operation: viewOperation(operation)}, Holds: []holdRow{{hold, wordsOf(hold)}}, From: []api.Partition{{Topic: text}}, Verdict: &dlq.Closing{Status: dlq.PermanentlyFailed, Notes: text, By: text, Entries: 2, LastAt: now}, Activity: []deedRow{{At: now, Who: text, What: text, Why: text, Operation: &pair{text, "/operations/" + own}}}, Related: []causeRow{v.frame.rowOf(c)}, Comparison: &comparison{Good: relay.EventStatus{ID: 1}, Differences: append(compareHeaders(map[string]any{text: text}, headerTree(snapshot)), comparePayloads(input2, []byte(`{}`))...)},
		Thread: &threadView{Path: "/causes/" + id.String(), Comments: []commentRow{rowOfComment(api.Comment{ID: 1, Author: text, Text: &own, CreatedAt: now}, true), rowOfComment(api.Comment{ID: 2, Author: text, CreatedAt: now, DeletedAt: &now}, false)}}})
	total, exact := int64(1), true
	show("investigations", investigationsView{EntryList: api.EntryList{List: api.List[api.Entry]{Total: &total, TotalExact: &exact}}, Rows: []entryRow{{detail.Entry, text}}, Query: own,
		Chips: []chip{{Name: chipName(api.Field{Name: "topic", Text: &text}), Path: "/?x=" + own}}})
	show("letter", letter)
	show("plan", planView{Kind: dlq.OpRedrive, IDs: []string{own}, ScopeText: quoted(text), GroupTitle: clip(text, 300), Name: own, Reason: own, Headers: own, Target: own, Fields: []api.Field{{Name: "topic", Text: &own}}, Already: viewOperation(operation)})
	show("operations", operationsView{Operations: []*operationView{viewOperation(operation)}})
	o := viewOperation(operation)
	reason := dlq.SkipReason(clip(text, 50))
	o.Happened = []happening{{At: now, Who: text, What: text, Why: text}}
	o.Listed = []api.OperationItem{{Item: 1, Entry: id, State: "failed", Reason: &reason, DLQReason: new(dlq.Undeliverable), Topic: &text, Key: &text, ErrorCode: &text}}
	show("operation", o)
	event := relay.EventStatus{ID: 7, EventID: id, Kind: text, Topic: text, Key: &text, State: "parked", Attempts: 2, LastErrorCode: &text, LastErrorMessage: &text, FirstErrorAt: &now, LastErrorAt: &now,
		CreatedAt: now, IdempotencyKey: &text, LockedBy: &text, LockedAt: &now}
	show("outbox", outboxView{Say: sayOutbox(f.Status.Outbox), Holds: []holdRow{{hold, wordsOf(hold)}}, Events: []eventRow{{event, eventWords(event)}}, Topic: own, Fields: []eventField{{"topic", "Topic", own}}, Status: own, Here: "/outbox?topic=" + url.QueryEscape(own)})
	seen := eventOf(event, &holdRow{hold, wordsOf(hold)}, []api.Entry{detail.Entry})
	headers, _ := json.Marshal(map[string]string{text: text})
	seen.carry(api.EventPayload{Key: &api.Bytes{Value: text}, Payload: &api.Bytes{Value: text}, Headers: headers}, "")
	show("event", seen)
	input, _ := json.Marshal(text)
	steps := []ledger.Step{{Name: text, Status: ledger.StepComplete, Handler: &text}, {Name: "next " + text, Dependencies: []string{text}, Status: ledger.StepError, LastError: &text, Inputs: input, Results: input}}
	one := ledger.Task{UUID: id, Name: text, Namespace: text, Version: text, State: text, Kind: "failed", ErrorReason: &text, IdempotencyKey: &text, Context: input, StaleFlaggedAt: &now, CreatedAt: now}
	why, _ := json.Marshal(map[string]string{"actor": text, "reason": text})
	whole := taskOf(one, steps, false)
	whole.History = history{Changes: []change{newChange(now, "The task", nil, text, why), newChange(now, "Step "+text, &text, text, nil)}}
	whole.listSteps(v, steps)
	whole.Picked = pickedStep(steps, 1, false)
	show("task", whole)
	show("tasks", &tasksView{Say: sayTasks(1, true, 2, ledger.DetectorStatus{Switch: ledger.Switch{Paused: true, Reason: text}}), Tasks: []taskRow{{one, taskWords(one), "/tasks/" + id.String()}}, Namespace: own, Name: own, Status: own, From: own, To: own})
	configuration, _ := json.Marshal(map[string]any{"steps": []map[string]any{{"name": text, "description": text, "handler": text}, {"name": "next " + text, "dependencies": []string{text}}},
		"states": []map[string]string{{"name": text, "kind": text}}, "lifecycle": map[string]any{"max_" + own + "_minutes": 5}})
	// The database bounds the names of templates.
	kind := ledger.Template{UUID: id, Namespace: own, Name: own, Version: own, Description: &text, Machine: text, Configuration: configuration}
	seenKind := templateOf(kind)
	seenKind.Versions = []templateRow{{Template: kind, Path: "/tasks"}}
	show("template", seenKind)
	show("templates", templatesView{Templates: []templateRow{{kind, 2, "/tasks"}}, Count: 1, Namespace: own})
	consumers := api.ConsumerGroup{Name: own, State: text, Problem: &text, Topics: []string{text}, Standing: 1, Partitions: []api.ConsumedPartition{{Topic: text}}}
	seenGroups := consumersOf(api.Topics{List: api.List[api.Topic]{Items: []api.Topic{{Name: own, Problem: &text}}}}, api.ConsumerGroups{List: api.List[api.ConsumerGroup]{Items: []api.ConsumerGroup{consumers}}, LookedAt: now})
	seenGroups.Picked = &seenGroups.Groups[0]
	show("consumers", seenGroups)
	show("doctor", doctorOf(doctor.Report{Findings: []doctor.Finding{{Group: text, Check: text, Verdict: doctor.Failed, Says: text, Hint: text}}}))
	sources := sourcesOf(api.Sources{List: api.List[api.Source]{Items: []api.Source{{Name: own, Database: text, Origin: text, Reason: &text, Error: &text}, {Name: own, Database: text, Origin: text, OK: true, Led: true, Leader: &text, LedSince: &now}}}})
	show("sources", sources)
	show("source", sourceOf(sources.Sources[0], now))
	show("source", sourceOf(sources.Sources[1], now))
	show("audit", auditView{Rows: []auditRow{rowOfAudit(access.Done{At: now, Actor: text, KeyID: text, Action: text, TargetType: text, TargetID: text, Details: input2})}, Fields: []auditField{{Name: "actor", Label: "Who", Text: own}}})
	show("access", accessView{Session: access.Session{Name: text}})
	show("failure", failure{Title: text, Text: text})
	return pages
}

// check reports what a text has done to a page.
func check(t testing.TB, text, page string) {
	t.Helper()
	if !utf8.ValidString(page) {
		t.Error("the page is no UTF-8")
	}
	for _, r := range page {
		if access.Misleading(r) {
			t.Errorf("the page has %U", r)
			break
		}
	}
	for _, bad := range []string{"<script>", "<img", "<svg onload", "onerror=alert(1)>", `href="javascript:`, "</textarea></title>"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %s of %.60q", bad, text)
		}
	}
}

func TestHostileTextsShowAsText(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		for i, page := range pageOf(t, text) {
			check(t, text, page)
			if len(page) > 500_000 {
				t.Errorf("page %d of %.20q… has %d bytes", i, text, len(page))
			}
		}
	}
	seen := html.UnescapeString(pageOf(t, "\u202egnp.exe \xff")[4])
	if !strings.Contains(seen, `\u202Egnp.exe`) {
		t.Error("a mark of direction is not shown as an escape")
	}
}

func FuzzPages(f *testing.F) {
	for _, text := range hostile {
		f.Add(clip(text, 2000))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, page := range pageOf(t, text) {
			check(t, text, page)
		}
	})
}

// FuzzPayload: any bytes are shown, bounded, and none of them is lost or made up in what is shown of them.
func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"a": [1, {"b": "x\"y"}], "c": {}}`))
	f.Add([]byte(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)))
	f.Add([]byte(strings.Repeat(`{"a":`, 20_000)))
	f.Add([]byte("\x00\xff"))
	f.Add([]byte(`{"a": "unfinished`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, as := range []string{"", "json", "text", "hex"} {
			v := showBytes(payload, false, as)
			size := 0
			var shown strings.Builder
			for _, p := range v.Pieces {
				size += len(p.Text)
				shown.WriteString(p.Text)
			}
			if limit := 40*min(len(payload), maxShown) + 200; size > limit+maxHex*5 {
				t.Errorf("%d bytes are shown as %d", len(payload), size)
			}
			if v.As == "json" && len(payload) <= maxShown {
				squeeze := func(s string) string {
					return strings.NewReplacer(" ", "", "\n", "", "\t", "", "\r", "").Replace(s)
				}
				if squeeze(shown.String()) != squeeze(shownNUL(string(payload))) && !strings.ContainsAny(string(payload), "\u00a0\u0085\v\f") {
					t.Errorf("%q is shown as %q", payload, shown.String())
				}
			}
			_ = harmless([]byte(shown.String()))
		}
	})
}

// TestHugePayloads: 16 MiB and 20,000 levels cost no more than what is shown of them.
func TestHugePayloads(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string][]byte{
		"deep":  []byte(strings.Repeat(`{"a":[`, 10_000) + strings.Repeat("]}", 10_000)),
		"large": []byte(`{"a": "` + strings.Repeat("x", 16<<20) + `"}`), "many": []byte("[" + strings.Repeat(`{"a":1},`, 2<<20) + "1]"),
		"bytes": []byte(strings.Repeat("\x00\xff", 8<<20)),
	} {
		for _, as := range []string{"json", "text", "hex"} {
			v := showBytes(payload, false, as)
			size := 0
			for _, p := range v.Pieces {
				size += len(p.Text)
			}
			if !v.Cut && len(payload) > maxShown || size > 40*maxShown || v.Size != int64(len(payload)) {
				t.Errorf("%s as %s: %d bytes are shown, cut: %v", name, as, size, v.Cut)
			}
		}
	}
}

func TestPrettyJSON(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{`{"a":1,"b":[true,null],"c":{}}`, "{\n  \"a\": 1,\n  \"b\": [\n    true,\n    null\n  ],\n  \"c\": {}\n}"},
		{`[]`, "[]"}, {`{"n": 12345678901234567890.10}`, "{\n  \"n\": 12345678901234567890.10\n}"}, {`{"a": "x: {,} \" y"}`, "{\n  \"a\": \"x: {,} \\\" y\"\n}"},
	} {
		pieces, is := prettyJSON([]byte(c[0]))
		var b strings.Builder
		for _, p := range pieces {
			b.WriteString(p.Text)
		}
		if !is || b.String() != c[1] {
			t.Errorf("%s is shown as %s", c[0], b.String())
		}
	}
	if _, is := prettyJSON([]byte("text")); is {
		t.Error("text is taken for JSON")
	}
}

func TestSearchTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"is:open topic:orders broken header": "resolution_status=pending&text=broken+header&topic=orders",
		`topic:"a b" who:mira`:               "assignee=mira&topic=a+b", "odd:word": "", `"odd:word"`: "text=odd%3Aword", "IS:Open Topic:orders": "resolution_status=pending&topic=orders", "": "", `"quoted text"`: "text=quoted+text", "reason:sold_out": "reason=sold_out",
	} {
		if got, _, _ := parseSearch(text); got.Encode() != want {
			t.Errorf("%q is %s", text, got)
		}
	}
	f := api.EntryFilter{Status: "pending", Topic: "a b", Reason: "sold_out", Text: "broken header"}
	if got, _, hints := parseSearch(searchText(f)); got.Encode() != "reason=sold_out&resolution_status=pending&text=broken+header&topic=a+b" || len(hints) > 0 {
		t.Errorf("%s comes back as %s, with %q", searchText(f), got, hints)
	}
	f.Text = "pq:gone at once"
	if got, _, hints := parseSearch(searchText(f)); got.Get("text") != f.Text || len(hints) > 0 {
		t.Errorf("%s comes back as %s, with %q", searchText(f), got, hints)
	}
	for text, want := range map[string][2]string{
		"is:zzz topic:orders":             {"topic=orders", "“is:zzz” was left out: “is:” takes one of cancelled, failed, open, resolved"},
		"is:open is:resolved topic:a":     {"resolution_status=pending&topic=a", "“is:resolved” was left out: a search takes “is:” once"},
		"topc:orders is:open":             {"resolution_status=pending", "“topc:orders” was left out: the search has no word “topc:”. Its words are is, reason, why, type,"},
		"group:odd from:odd x":            {"text=x", "“group:odd” was left out: “group:” takes a uuid"},
		"dial http://a:80/x a.b.C:failed": {"text=dial+http%3A%2F%2Fa%3A80%2Fx+a.b.C%3Afailed", ""},
	} {
		got, _, hints := parseSearch(text)
		if said := strings.Join(hints, "; "); got.Encode() != want[0] || !strings.HasPrefix(said, want[1]) || (want[1] == "") != (said == "") {
			t.Errorf("%q is %s, and the page says %q", text, got.Encode(), said)
		}
	}
}

func TestWordsForPeople(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		count(1234567): "1,234,567", count(-1000): "-1,000", count(0): "0", ageText(400 * time.Millisecond): "0.4 s", ageText(90 * time.Second): "90 s", ageText(8 * time.Minute): "8 min",
		ageText(50 * time.Hour): "2 days", some(1, "event", "events"): "1 event", some(2000, "event", "events"): "2,000 events", clip("äöü", 3): "ä…", sentence("it is so"): "It is so.",
		spanText(8 * time.Minute): "8 minutes", cell("=1+1"): "'=1+1", cell("x"): "x", rate(413.4): "413", rate(2.55): "2.6", bytesText(16 << 20): "16.0 MiB",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	at := time.Date(2026, 11, 22, 14, 10, 24, 0, time.UTC)
	for ago, want := range map[time.Duration]string{14 * time.Second: "14 s ago", 8 * time.Minute: "14:02", 15 * time.Hour: "Sat 23:10", 40 * time.Hour: "Fri 22:10", 400 * time.Hour: "5 Nov"} {
		if got := clock(at.Add(-ago), at); got != want {
			t.Errorf("%v ago is %q, not %q", ago, got, want)
		}
	}
}

// TestTheSentence: worst first, and never what is not known.
func TestTheSentence(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 14, 10, 24, 0, time.UTC)
	topic, code := "orders", "INVALID_HEADERS"
	burning := cause{Group: api.Group{UUID: uuid.New(), Topic: &topic, State: dlq.GroupNew, Pending: 213, FirstSeenAt: now.Add(-8 * time.Minute), LastSeenAt: now.Add(-14 * time.Second),
		Parts: dlq.Parts{ErrorCode: code, Message: "header must be text", Topic: topic}}}
	quiet := burning
	quiet.LastSeenAt, quiet.Pending = now.Add(-time.Hour), 4
	breaker := api.Hold{Scope: relay.ScopeFailure, Topic: topic, Cause: relay.CauseBreaker, FailureCode: &code, HeldAt: now.Add(-8 * time.Minute), Parked: 75_680}
	other := breaker
	other.Topic = "refunds"
	tasks := burning
	tasks.Topic, tasks.Pending, tasks.Parts = nil, 109, dlq.Parts{Template: "orders/ship"}
	halted := api.Operation{UUID: uuid.New(), Kind: dlq.OpRedrive, Name: "urgent", State: dlq.Halted, Items: 213, Done: 31, Delivered: 27, CameBack: 4}
	for want, f := range map[string]*figures{
		"All is well. No event arrived in the last minute.":                                                     {},
		"orders: 213 events given up in 8 minutes, all of one cause.":                                           {Causes: []cause{burning}, Open: 1},
		"orders: 217 events given up in 8 minutes, of 2 causes.":                                                {Causes: []cause{burning, func() cause { c := burning; c.Pending = 4; return c }()}, Open: 2},
		"orders: 213 events given up in 8 minutes, all of one cause. ":                                          {Causes: []cause{tasks, burning}, Open: 2, Status: api.Status{Outbox: api.OutboxStatus{Holds: []api.Hold{breaker}}}},
		"The circuit breaker of refunds is open for INVALID_HEADERS since 14:02: 75,680 events wait behind it.": {Causes: []cause{tasks}, Open: 1, Status: api.Status{Outbox: api.OutboxStatus{Holds: []api.Hold{other}}}},
		"orders/ship: 109 tasks in error in 8 minutes, all of one cause.":                                       {Causes: []cause{tasks, burning}, Open: 2},
		"urgent halted by itself: 4 of the 31 whose outcome is known failed again.":                             {Causes: []cause{burning}, Open: 1, Status: api.Status{Operations: []api.Operation{halted}}},
		"1 cause is open; nothing was given up in the last 15 min.":                                             {Causes: []cause{quiet}, Open: 1},
		"The circuit breaker of orders is open for INVALID_HEADERS since 14:02: 75,680 events wait behind it.":  {Causes: []cause{quiet}, Open: 1, Status: api.Status{Outbox: api.OutboxStatus{Holds: []api.Hold{breaker}}}},
		"3 events wait to be sent; the oldest for 8 min.":                                                       {Status: api.Status{Outbox: api.OutboxStatus{Due: 3, OldestDueSeconds: 500}}},
	} {
		f.At, f.Own = now, true
		if got := sayNow(f); got.Text != strings.TrimSpace(want) {
			t.Errorf("%q, not %q", got.Text, want)
		}
	}
	s := sayNow(&figures{At: now, Causes: []cause{burning}, Open: 1, Status: api.Status{Outbox: api.OutboxStatus{Holds: []api.Hold{breaker}}}})
	if want := "75,680 events that fail with it wait behind it, and the other events of the topic go on."; !strings.HasSuffix(s.More, want) {
		t.Errorf("of the circuit breaker it says %q", s.More)
	}
}

func TestPlotsHaveTheirFigures(t *testing.T) {
	t.Parallel()
	step := series.Short.Step()
	s := api.Series{To: time.Now().Truncate(time.Minute).Add(-step), StepSeconds: step.Seconds()}
	s.From = s.To.Add(-series.Short.Length())
	age, waiting := 8*60.0, int64(7000)
	for i := range 60 {
		at := s.To.Add(time.Duration(i-60) * step)
		s.Points = append(s.Points, api.SeriesPoint{At: at, Delivered: 50, GivenUp: 1, OldestDueSeconds: &age, Waiting: &waiting})
	}
	short := pointsOf(s)
	if len(short) != 180 {
		t.Fatalf("%d points", len(short))
	}
	delivered := deliveredPlot("a", short, step, "last 15 minutes")
	oldest := oldestPlot("b", short, "last 15 minutes")
	for _, p := range []plot{delivered, oldest} {
		if svg := string(p.SVG); strings.Contains(svg, "BADINDEX") || strings.Contains(svg, "NaN") || strings.Contains(svg, "style=") || len(p.Rows) != 15 {
			t.Errorf("%d rows; %s", len(p.Rows), svg)
		}
	}
	if !strings.Contains(string(delivered.SVG), "At most 10 events a second arrived, now 10. 60 were given up.") || !strings.Contains(string(oldest.SVG), "At most 8 min.") {
		t.Errorf("the words are %.600s … %.400s", delivered.SVG, oldest.SVG)
	}
	if got := fmt.Sprint(delivered.Rows[14]); got != "["+s.To.Add(-time.Minute).UTC().Format("15:04:05")+" 10 12]" {
		t.Errorf("the last row is %s", got)
	}
	if first, last := fmt.Sprint(oldest.Rows[0][1:]), fmt.Sprint(oldest.Rows[14][1:]); first != "[– –]" || last != "[8 min 7,000]" {
		t.Errorf("the ages begin with %s and end with %s", first, last)
	}
	if b := string(bar([]share{{Class: "fine", Name: "Arrived", Count: 3}, {Class: "failing", Name: "Came back", Count: 1}})); strings.Contains(b, "BADINDEX") || !strings.Contains(b, "Of 4: 3 arrived, 1 came back") {
		t.Error(b)
	}
}
