package console

import (
	"net/http"
	"strings"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
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
	// do does what a form asks for, and returns the page to go on to.
	do func(*visit) (to string, err error)
	// actions are the scopes that the page's buttons need.
	actions []access.Scope
	// name is what the rail calls the page; empty for none. block is the part of the rail that it is in, and count the
	// figure behind it.
	name  string
	block int
	count func(*figures) (text string, hot bool)
}

// path is the page's path, for a page that has no parts to fill in.
func (p page) path() string {
	_, path, _ := strings.Cut(p.pattern, " ")
	return strings.TrimSuffix(path, "{$}")
}

// pages are all pages, in the order of the rail.
func pages() []page {
	treat := []access.Scope{access.Resolve, access.Redrive}
	return []page{
		{pattern: "GET /{$}", scope: access.Read, template: "now", show: showNow, name: "Now", actions: []access.Scope{access.Resolve}},
		{pattern: "GET /causes", scope: access.Read, template: "causes", show: showCauses, name: "Causes", count: countCauses},
		{pattern: "GET /causes/{id}", scope: access.Read, template: "cause", show: showCause, actions: treat},
		{pattern: "POST /causes/{id}/change", scope: access.Resolve, do: changeCause},
		{pattern: "POST /causes/{id}/resolve", scope: access.Resolve, do: resolveCause},
		{pattern: "POST /causes/{id}/merge", scope: access.Resolve, do: mergeCause},
		{pattern: "POST /causes/{id}/split", scope: access.Resolve, do: splitCause},
		{pattern: "GET /investigations", scope: access.Read, template: "investigations", show: showInvestigations, name: "Investigations", count: countPending,
			actions: []access.Scope{access.Redrive, access.Resolve, access.Purge}},
		{pattern: "GET /investigations/export", scope: access.Read, show: exportInvestigations},
		{pattern: "GET /investigations/{id}", scope: access.Read, template: "letter", show: showLetter, actions: []access.Scope{access.Resolve, access.Redrive, access.Edit, access.ReadPayload}},
		{pattern: "POST /investigations/{id}/reveal", scope: access.ReadPayload, do: revealLetter},
		{pattern: "POST /investigations/{id}/change", scope: access.Resolve, do: changeLetter},
		{pattern: "POST /investigations/{id}/send", scope: access.Redrive, do: sendLetter},
		{pattern: "POST /investigations/{id}/fetch", scope: access.Resolve, do: fetchLetter},
		{pattern: "GET /plan", scope: access.Read, template: "plan", show: showPlan, actions: []access.Scope{access.Redrive, access.Resolve, access.Purge}},
		{pattern: "POST /plan", scope: access.Read, do: makePlan},
		{pattern: "GET /operations", scope: access.Read, template: "operations", show: showOperations, name: "Operations", count: countOperations},
		{pattern: "GET /operations/{id}", scope: access.Read, template: "operation", show: showOperation, actions: []access.Scope{access.Redrive}},
		{pattern: "POST /operations/{id}/{command}", scope: access.Read, do: commandOperation},
		{pattern: "GET /outbox", scope: access.Read, template: "outbox", show: showOutbox, name: "Outbox", block: 1, count: countWaiting, actions: []access.Scope{access.Resolve}},
		{pattern: "GET /outbox/{id}", scope: access.Read, template: "event", show: showEvent, actions: []access.Scope{access.Resolve, access.Redrive, access.ReadPayload}},
		{pattern: "POST /outbox/{id}/reveal", scope: access.ReadPayload, do: revealEvent},
		{pattern: "POST /outbox/{id}/skip", scope: access.Resolve, do: skipEvent},
		{pattern: "POST /outbox/{id}/redrive", scope: access.Redrive, do: redriveEvent},
		{pattern: "GET /tasks", scope: access.Read, template: "tasks", show: showTasks, name: "Tasks", block: 1},
		{pattern: "GET /tasks/archive", scope: access.Read, template: "tasks", show: showArchive},
		{pattern: "GET /tasks/archive/{id}", scope: access.Read, template: "task", show: showArchivedTask},
		{pattern: "GET /tasks/{id}", scope: access.Read, template: "task", show: showTask, actions: []access.Scope{access.Resolve}},
		{pattern: "POST /tasks/{id}/{command}", scope: access.Resolve, do: commandTask},
		{pattern: "POST /tasks/{id}/steps/{step}", scope: access.Resolve, do: actOnStep},
		{pattern: "GET /audit", scope: access.Admin, template: "audit", show: showAudit, name: "Audit", block: 2},
		{pattern: "GET /access", scope: access.Read, template: "access", show: showAccess, name: "My access", block: 2},
		{pattern: "POST /holds/{id}/release", scope: access.Resolve, do: releaseHold},
	}
}

func countCauses(f *figures) (string, bool)     { return count(f.Open), f.Open > 0 }
func countPending(f *figures) (string, bool)    { return count(f.Pending), false }
func countOperations(f *figures) (string, bool) { return count(len(f.Status.Operations)), false }
func countWaiting(f *figures) (string, bool)    { return count(f.Status.Outbox.Pending), false }

// notFound is for every path that is no page.
func notFound(v *visit) error {
	return &httpapi.Error{Code: httpapi.NotFound, Message: "there is no page at " + oneLine(v.URL.Path, 200) + "; the rail has all pages"}
}

// releaseHold ends the wait of a hold.
func releaseHold(v *visit) (string, error) {
	_, err := ask[any](v, http.MethodPost, "/holds/"+v.id()+"/release", nil, nil)
	if err == nil {
		v.say("The hold ends: what waited behind it is tried now.")
	}
	return ownPath(v.FormValue("back")), err
}
