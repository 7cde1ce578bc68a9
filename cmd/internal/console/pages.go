package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// page is a row of the table of pages: a page that is shown, or a form that is sent.
type page struct {
	// pattern is method and path, as http.ServeMux has them.
	pattern string
	// scope is what a person needs to see it, or to send it. Required.
	scope access.Scope
	// template is the file under templates, without .html.
	template string
	// show fills the frame of a page. Either show or do is set.
	show func(*visit) error
	// takes are the parameters of its address; others are refused.
	takes []string
	// do does what a form asks for, and returns the page to go on to.
	do func(*visit) (to string, err error)
	// actions are the scopes that the page's buttons need.
	actions []access.Scope
	// name is what the menu calls the page; empty for none. block is the part of the menu that it is in, and count the
	// figure behind it.
	name  string
	block int
	count func(*figures) (text string, hot bool)
	// hidden reports whether the menu leaves the page out; nil for never.
	hidden func(Config) bool
}

// path is the page's path, for a page that has no parts to fill in.
func (p page) path() string {
	_, path, _ := strings.Cut(p.pattern, " ")
	return strings.TrimSuffix(path, "{$}")
}

// reaches say for pages which sources a person needs, by the first part of their path, as in the API. What is not here is of the
// whole installation.
var reaches = map[string]httpapi.Reach{
	"": httpapi.PerSource, "causes": httpapi.PerSource, "investigations": httpapi.PerSource, "plan": httpapi.PerSource, "operations": httpapi.PerSource,
	"sources": httpapi.PerSource, "audit": httpapi.PerSource, "access": httpapi.PerSource,
	"outbox": httpapi.OwnDatabase, "holds": httpapi.OwnDatabase, "tasks": httpapi.OwnDatabase, "detector": httpapi.OwnDatabase, "archive": httpapi.OwnDatabase,
}

// reach says which sources a person needs for it.
func (p page) reach() httpapi.Reach {
	if p.pattern == anyPath {
		return httpapi.PerSource // it has nothing
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(p.path(), "/"), "/")
	return reaches[first]
}

// pages are all pages, in the order of the menu.
func pages() []page {
	treat := []access.Scope{access.Resolve, access.Redrive}
	letterActions := []access.Scope{access.Resolve, access.Redrive, access.Edit, access.ReadPayload}
	return []page{
		{pattern: "GET /{$}", scope: access.Read, template: "now", show: showNow, takes: []string{"span"}, name: "Now", actions: []access.Scope{access.Resolve}},
		{pattern: "GET /causes", scope: access.Read, template: "causes", show: showCauses, takes: append(filterNames(api.Fields(&api.GroupFilter{})), "after"), name: "Causes", count: countCauses},
		exported("GET /causes/export", access.Read, "causes", "/groups", append(filterNames(api.Fields(&api.GroupFilter{})), "order_by"), groupColumns),
		{pattern: "GET /causes/{id}", scope: access.Read, template: "cause", show: showCause, takes: causeParameters, actions: append(treat, access.ReadPayload)},
		{pattern: "POST /causes/{id}/compare", scope: access.ReadPayload, do: askToLook("#difference")},
		{pattern: "GET /causes/{id}/compare", scope: access.Read, template: "cause", show: lookOnce("/causes/", compareCause), takes: causeParameters, actions: append(treat, access.ReadPayload)},
		{pattern: "POST /causes/{id}/change", scope: access.Resolve, do: changeCause},
		{pattern: "POST /causes/{id}/resolve", scope: access.Resolve, do: resolveCause},
		{pattern: "POST /causes/{id}/retry", scope: access.Resolve, do: retryCause},
		{pattern: "POST /causes/{id}/merge", scope: access.Resolve, do: mergeCause},
		{pattern: "POST /causes/{id}/split", scope: access.Resolve, do: splitCause},
		{pattern: "POST /causes/{id}/comments", scope: access.Resolve, do: commentOnCause},
		{pattern: "POST /causes/{id}/comments/{comment}/delete", scope: access.Resolve, do: deleteCauseComment},
		{pattern: "GET /investigations", scope: access.Read, template: "investigations", show: showInvestigations, takes: append(filterNames(api.Fields(&api.EntryFilter{})), "q", "left_out", "order_dir", "after", "limit", "cursor"), name: "Investigations", count: countPending,
			actions: []access.Scope{access.Redrive, access.Resolve, access.Purge}},
		exported("GET /investigations/export", access.Read, "investigations", "/dlq", append(filterNames(api.Fields(&api.EntryFilter{})), "order_dir"), entryColumns),
		{pattern: "GET /investigations/{id}", scope: access.Read, template: "letter", show: showLetter, takes: letterParameters, actions: letterActions},
		{pattern: "POST /investigations/{id}/reveal", scope: access.ReadPayload, do: askToLook("#letter")},
		{pattern: "GET /investigations/{id}/reveal", scope: access.Read, template: "letter", show: lookOnce("/investigations/", revealLetter), takes: letterParameters, actions: letterActions},
		{pattern: "POST /investigations/{id}/change", scope: access.Resolve, do: changeLetter},
		{pattern: "POST /investigations/{id}/send", scope: access.Redrive, do: sendLetter, actions: letterActions},
		{pattern: "GET /investigations/{id}/send", scope: access.Read, show: backTo("/investigations/"), takes: letterParameters},
		{pattern: "POST /investigations/{id}/fetch", scope: access.Resolve, do: fetchLetter},
		{pattern: "POST /investigations/{id}/comments", scope: access.Resolve, do: commentOnLetter},
		{pattern: "POST /investigations/{id}/comments/{comment}/delete", scope: access.Resolve, do: deleteLetterComment},
		{pattern: "GET /plan", scope: access.Read, template: "plan", show: showPlan, takes: planParameters},
		{pattern: "POST /plan", scope: access.Read, do: makePlan},
		{pattern: "GET /operations", scope: access.Read, template: "operations", show: showOperations, takes: []string{"open", "after"}, name: "Operations", count: countOperations},
		exported("GET /operations/export", access.Read, "operations", "/operations", []string{"open"}, operationColumns),
		{pattern: "GET /operations/{id}", scope: access.Read, template: "operation", show: showOperation, takes: []string{"state", "outcome", "after"}},
		{pattern: "GET /operations/{id}/export", scope: access.Read, show: exportItems, takes: []string{"state", "outcome", "format"}},
		{pattern: "POST /operations/{id}/{command}", scope: access.Read, do: commandOperation},
		{pattern: "GET /outbox", scope: access.Read, template: "outbox", show: showOutbox, takes: slices.Concat(eventParameters, []string{"after", "cause", "holds_after"}), name: "Outbox", block: 1, count: countWaiting, actions: []access.Scope{access.Resolve}},
		exported("GET /outbox/export", access.Read, "events", "/outbox", eventParameters, eventColumns),
		exported("GET /outbox/holds/export", access.Read, "holds", "/holds", []string{"cause", "topic"}, holdColumns),
		{pattern: "GET /outbox/{id}", scope: access.Read, template: "event", show: showEvent, actions: []access.Scope{access.Resolve, access.Redrive, access.ReadPayload}},
		{pattern: "POST /outbox/{id}/reveal", scope: access.ReadPayload, do: askToLook("#letter")},
		{pattern: "GET /outbox/{id}/reveal", scope: access.Read, template: "event", show: lookOnce("/outbox/", revealEvent), actions: []access.Scope{access.Resolve, access.Redrive, access.ReadPayload}},
		{pattern: "POST /outbox/{id}/skip", scope: access.Resolve, do: skipEvent},
		{pattern: "POST /outbox/{id}/redrive", scope: access.Redrive, do: redriveEvent},
		{pattern: "GET /tasks", scope: access.Read, template: "tasks", show: showTasks, takes: slices.Concat(taskFilters, []string{"after"}), name: "Tasks", block: 1, actions: []access.Scope{access.Resolve}},
		exported("GET /tasks/export", access.Read, "tasks", "/tasks", taskFilters, taskColumns),
		exported("GET /tasks/archive/export", access.Read, "archived-tasks", "/archive/tasks", archiveFilters, taskColumns),
		{pattern: "GET /tasks/archive", scope: access.Read, template: "tasks", show: showArchive, takes: slices.Concat(archiveFilters, []string{"after"}), actions: []access.Scope{access.Resolve}},
		{pattern: "GET /tasks/archive/{id}", scope: access.Read, template: "task", show: showArchivedTask, takes: taskParameters},
		{pattern: "GET /tasks/templates", scope: access.Read, template: "templates", show: showTemplates, takes: []string{"namespace", "from"}},
		{pattern: "GET /tasks/templates/{namespace}/{name}", scope: access.Read, template: "template", show: showTemplate, takes: []string{"version", "from"}},
		{pattern: "GET /tasks/{id}", scope: access.Read, template: "task", show: showTask, takes: taskParameters, actions: []access.Scope{access.Resolve}},
		{pattern: "POST /detector/{command}", scope: access.Resolve, do: switchEngine("/tasks", "/detector", "detectors of stale tasks")},
		{pattern: "POST /archive/{command}", scope: access.Resolve, do: switchEngine("/tasks/archive", "/archive", "archivers of tasks")},
		{pattern: "POST /tasks/retry", scope: access.Resolve, do: retryTasks},
		{pattern: "POST /tasks/{id}/{command}", scope: access.Resolve, do: commandTask},
		{pattern: "POST /tasks/{id}/steps/{step}", scope: access.Resolve, do: actOnStep},
		{pattern: "GET /consumers", scope: access.Read, template: "consumers", show: showConsumers, takes: []string{"group", "groups", "topics", "partitions"}, name: "Consumers", block: 1},
		exported("GET /consumers/export", access.Read, "consumers", "/consumers", nil, consumerColumns),
		exported("GET /consumers/topics/export", access.Read, "topics", "/topics", nil, topicColumns),
		{pattern: "GET /sources", scope: access.Admin, template: "sources", show: showSources, takes: []string{"from"}, name: "Sources", block: 2, hidden: func(c Config) bool { return !c.Sources }},
		{pattern: "GET /sources/{name}", scope: access.Admin, template: "source", show: showSource},
		{pattern: "GET /doctor", scope: access.Admin, template: "doctor", show: showDoctor, name: "Doctor", block: 2},
		{pattern: "GET /audit", scope: access.Admin, template: "audit", show: showAudit, takes: slices.Concat(auditFields(), []string{"after", "batches"}), name: "Audit", block: 2},
		exported("GET /audit/export", access.Admin, "audit", "/audit", auditFields(), auditColumns),
		{pattern: "GET /access", scope: access.Read, template: "access", show: showAccess, name: "My access", block: 2},
		{pattern: "POST /access/sessions", scope: access.Read, do: endSessions},
		{pattern: "POST /holds/{id}/release", scope: access.Resolve, do: releaseHold},
	}
}

// parameters of pages of one thing: what they show of it, and for an investigation the list that it was reached from.
var (
	causeParameters  = []string{"as", "comments", "after", "rest"}
	letterParameters = append([]string{"as", "comments", "order_dir"}, filterNames(api.Fields(&api.EntryFilter{}))...)
	planParameters   = append([]string{"kind", "in", "id", "all", "name", "why", "canary", "rate", "target", "headers", "headers_as_text", "no_headers", "status", "notes", "instead"}, filterNames(api.Fields(&api.EntryFilter{}))...)
	taskParameters   = []string{"from", "step", "moves", "step_moves"}
)

// exported is a page that is a list of the API as a file.
func exported[T any](pattern string, scope access.Scope, name, path string, filters []string, columns []column[T]) page {
	return page{pattern: pattern, scope: scope, show: export(name, path, filters, columns), takes: append([]string{"format"}, filters...)}
}

func countCauses(f *figures) (string, bool)     { return count(f.Open), f.Open > 0 }
func countPending(f *figures) (string, bool)    { return count(f.Pending), false }
func countOperations(f *figures) (string, bool) { return count(len(f.Status.Operations)), false }

// countWaiting counts what is held back and what waits for its time, too: none of it has gone.
func countWaiting(f *figures) (string, bool) {
	o := f.Status.Outbox
	return count(o.Pending + o.Parked + o.Scheduled), false
}

// anyPath is the pattern of every path that is no page.
const anyPath = "/"

// notFound is for every path that is no page.
func notFound(v *visit) error {
	return &httpapi.Error{Code: httpapi.NotFound, Message: "there is no page at " + oneLine(v.URL.Path, 200) + "; the menu has all pages"}
}

// releaseHold ends the wait of a hold.
func releaseHold(v *visit) (string, error) {
	released, err := ask[postgres.Released](v, http.MethodPost, "/holds/"+v.id()+"/release", nil, nil)
	switch {
	case err != nil:
	case released.Cause == relay.CauseBreaker:
		v.say("All that waits behind it is tried once more. What fails again goes on waiting.")
	case released.Draining:
		v.say("The hold ends: what waits behind it goes now, in its order.")
	default:
		v.say("One event is tried now. If it arrives, all that waits behind it goes on; if not, the hold stays and is tried again later.")
	}
	return ownPath(v.FormValue("back")), err
}
