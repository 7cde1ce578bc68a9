package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
)

// redriveCost is what calls count that make many others work: messages are sent, or rows removed.
const redriveCost = 25

// planLimit is how long planning an operation may take: that looks at everything in its scope.
const planLimit = 2*time.Minute + 5*time.Second

// Routes are all operations of the API with the scope that each needs. A test compares them with openapi.yaml.
func (s *Services) Routes() []Route {
	const get, post, patch, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	rows := []struct {
		method, path string
		scope        access.Scope
		cost         int
		handle       func(context.Context, *Request) (any, error)
	}{
		{get, "/status", access.Read, 1, s.status},

		{get, "/dlq", access.Read, 1, s.listEntries},
		{get, "/dlq/stats", access.Read, 1, s.dlqStats},
		{post, "/dlq/requeue", access.Redrive, redriveCost, s.requeue},
		{post, "/dlq/purge", access.Purge, redriveCost, s.purgeEntries},
		{get, "/dlq/{id}", access.Read, 1, s.getEntry},
		{patch, "/dlq/{id}", access.Resolve, 1, s.changeEntry},
		{post, "/dlq/{id}/fetch", access.Resolve, redriveCost, s.fetchOriginal},
		{get, "/dlq/{id}/payload", access.ReadPayload, 1, s.revealLetter},

		{get, "/groups", access.Read, 1, s.listGroups},
		{get, "/groups/{id}", access.Read, 1, s.getGroup},
		{patch, "/groups/{id}", access.Resolve, 1, s.changeGroup},
		{post, "/groups/{id}/resolve", access.Resolve, redriveCost, s.resolveGroup},

		{get, "/operations", access.Read, 1, s.listOperations},
		{post, "/operations", access.Redrive, redriveCost, s.planOperation},
		{get, "/operations/{id}", access.Read, 1, s.getOperation},
		{get, "/operations/{id}/items", access.Read, 1, s.operationItems},
		{post, "/operations/{id}/start", access.Redrive, 1, s.command("start")},
		{post, "/operations/{id}/pause", access.Redrive, 1, s.command("pause")},
		{post, "/operations/{id}/resume", access.Redrive, 1, s.command("resume")},
		{post, "/operations/{id}/abort", access.Redrive, 1, s.command("abort")},

		{get, "/tasks", access.Read, 1, s.listTasks},
		{post, "/tasks", access.Resolve, 1, s.createTask},
		{get, "/tasks/{id}", access.Read, 1, s.getTask},
		{get, "/tasks/{id}/payload", access.ReadPayload, 1, s.revealTask},
		{get, "/tasks/{id}/workflow_steps", access.Read, 1, s.taskSteps},
		{get, "/tasks/{id}/workflow_steps/{step}", access.Read, 1, s.taskStep},
		{patch, "/tasks/{id}/workflow_steps/{step}", access.Resolve, 1, s.actOnStep},
		{get, "/tasks/{id}/transitions", access.Read, 1, s.taskTransitions},
		{get, "/tasks/{id}/step_transitions", access.Read, 1, s.taskStepTransitions},
		{post, "/tasks/{id}/retry", access.Resolve, 1, s.retryTask},
		{post, "/tasks/{id}/cancel", access.Resolve, 1, s.cancelTask},
		{post, "/tasks/{id}/dlq", access.Resolve, 1, s.deadLetterTask},

		{get, "/archive/tasks", access.Read, 1, s.listArchive},
		{get, "/archive/statistics", access.Read, 1, s.archiveStatistics},
		{get, "/archive/tasks/{id}", access.Read, 1, s.archivedTask},
		{get, "/archive/tasks/{id}/payload", access.ReadPayload, 1, s.revealArchivedTask},
		{get, "/archive/tasks/{id}/workflow_steps", access.Read, 1, s.archivedSteps},
		{get, "/archive/tasks/{id}/workflow_steps/{step}", access.Read, 1, s.archivedStep},
		{get, "/archive/tasks/{id}/transitions", access.Read, 1, s.archivedTransitions},
		{get, "/archive/tasks/{id}/step_transitions", access.Read, 1, s.archivedStepTransitions},

		{get, "/templates", access.Read, 1, s.listTemplates},
		{post, "/templates", access.Admin, 1, s.applyTemplate},
		{get, "/templates/{namespace}/{name}", access.Read, 1, s.getTemplate},

		{get, "/outbox", access.Read, 1, s.listEvents},
		{post, "/outbox/purge", access.Purge, redriveCost, s.purgeDelivered},
		{get, "/outbox/{id}", access.Read, 1, s.getEvent},
		{get, "/outbox/{id}/payload", access.ReadPayload, 1, s.revealEvent},
		{post, "/outbox/{id}/skip", access.Resolve, 1, s.skipEvent},
		{post, "/outbox/{id}/redrive", access.Redrive, redriveCost, s.redriveEvent},
		{get, "/holds", access.Read, 1, s.listHolds},
		{post, "/holds/{id}/release", access.Resolve, 1, s.releaseHold},
		{post, "/holds/{id}/give-up", access.Resolve, 1, s.giveUpHold},

		{get, "/keys", access.Admin, 1, s.listKeys},
		{post, "/keys", access.Admin, 1, s.createKey},
		{del, "/keys/{id}", access.Admin, 1, s.revokeKey},
		{get, "/audit", access.Admin, 1, s.listAudit},
	}
	routes := make([]Route, len(rows))
	for i, r := range rows {
		routes[i] = Route{Method: r.method, Path: r.path, Scope: r.scope, Cost: r.cost, Handle: r.handle}
		switch r.method + " " + r.path {
		case "POST /operations":
			routes[i].Limit = planLimit
		case "POST /tasks":
			routes[i].Recall = s.createdTask
		}
	}
	return routes
}
