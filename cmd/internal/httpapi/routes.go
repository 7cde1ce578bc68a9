package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// redriveCost is what calls count that make many others work: messages are sent, or rows removed.
const redriveCost = 25

// either is what an operation answers that answers with more than one type.
type either []any

// PlanLimit is how long a request may take that treats many things: planning an operation looks at everything in its scope, and a
// retry of many tasks has a transaction for each.
const PlanLimit = 2*time.Minute + 5*time.Second

// Routes are all operations of the API: the scope that each needs, what it is asked and what it answers. openapi.yaml is made
// of them.
func (s *Services) Routes() []Route {
	const get, post, patch, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	rows := []struct {
		method, path string
		scope        access.Scope
		cost         int
		handle       func(context.Context, *Request) (any, error)
		body, answer any // as in Route; a single answer stands for itself
	}{
		{get, "/status", access.Read, 1, s.status, nil, api.Status{}},
		{get, "/series", access.Read, 1, s.getSeries, nil, api.Series{}},

		{get, "/dlq", access.Read, 1, s.listEntries, nil, api.EntryList{}},
		{get, "/dlq/stats", access.Read, 1, s.dlqStats, nil, api.Stats{}},
		{post, "/dlq/requeue", access.Redrive, redriveCost, s.requeue, requeueBody{}, api.Requeued{}},
		{post, "/dlq/release", access.Resolve, redriveCost, s.releaseKeys, releaseBody{}, api.ReleasedKeys{}},
		{post, "/dlq/purge", access.Purge, redriveCost, s.purgeEntries, purgeBody{}, api.Purged{}},
		{get, "/dlq/{id}", access.Read, 1, s.getEntry, nil, api.Detail{}},
		{patch, "/dlq/{id}", access.Resolve, 1, s.changeEntry, changeEntryBody{}, api.ChangedEntry{}},
		{post, "/dlq/{id}/fetch", access.Resolve, redriveCost, s.fetchOriginal, &nothing{}, api.Fetched{}},
		{get, "/dlq/{id}/requeue", access.Read, 1, s.previewRequeue, nil, api.Requeued{}},
		{get, "/dlq/{id}/payload", access.ReadPayload, 1, s.revealLetter, nil, api.Letter{}},

		{get, "/dlq/{id}/neighbours", access.Read, 1, s.neighbours, nil, api.Neighbours{}},
		{get, "/dlq/{id}/comments", access.Read, 1, s.listComments(entryThread), nil, api.List[api.Comment]{}},
		{post, "/dlq/{id}/comments", access.Resolve, 1, s.addComment(entryThread), commentBody{}, Created{api.Comment{}}},
		{del, "/dlq/{id}/comments/{comment}", access.Resolve, 1, s.deleteComment(entryThread), nil, api.Comment{}},

		{get, "/groups", access.Read, 1, s.listGroups, nil, api.List[api.Group]{}},
		{get, "/groups/{id}", access.Read, 1, s.getGroup, nil, api.GroupDetail{}},
		{patch, "/groups/{id}", access.Resolve, 1, s.changeGroup, changeGroupBody{}, api.Group{}},
		{post, "/groups/{id}/resolve", access.Resolve, redriveCost, s.resolveGroup, &resolveGroupBody{}, api.ResolvedGroup{}},
		{post, "/groups/{id}/merge", access.Resolve, redriveCost, s.mergeGroup, mergeGroupBody{}, api.MergedGroup{}},
		{post, "/groups/{id}/split", access.Resolve, redriveCost, s.splitGroup, splitGroupBody{}, api.List[api.SplitGroup]{}},
		{get, "/groups/{id}/comments", access.Read, 1, s.listComments(groupThread), nil, api.List[api.Comment]{}},
		{post, "/groups/{id}/comments", access.Resolve, 1, s.addComment(groupThread), commentBody{}, Created{api.Comment{}}},
		{del, "/groups/{id}/comments/{comment}", access.Resolve, 1, s.deleteComment(groupThread), nil, api.Comment{}},

		{get, "/commands", access.Read, 1, s.listCommands, nil, api.List[api.Command]{}},

		{get, "/operations", access.Read, 1, s.listOperations, nil, api.List[api.Operation]{}},
		{post, "/operations", access.Redrive, redriveCost, s.planOperation, planBody{}, Created{api.Operation{}}},
		{get, "/operations/{id}", access.Read, 1, s.getOperation, nil, api.OperationDetail{}},
		{get, "/operations/{id}/items", access.Read, 1, s.operationItems, nil, api.List[api.OperationItem]{}},
		{post, "/operations/{id}/start", access.Redrive, 1, s.command("start"), &commandBody{}, api.Operation{}},
		{post, "/operations/{id}/pause", access.Redrive, 1, s.command("pause"), &commandBody{}, api.Operation{}},
		{post, "/operations/{id}/resume", access.Redrive, 1, s.command("resume"), &commandBody{}, api.Operation{}},
		{post, "/operations/{id}/abort", access.Redrive, 1, s.abortOperation, &abortBody{}, api.Operation{}},

		{get, "/tasks", access.Read, 1, s.listTasks, nil, api.List[ledger.Task]{}},
		{post, "/tasks", access.Resolve, 1, s.createTask, createTaskBody{}, Created{ledger.Task{}}},
		{post, "/tasks/retry", access.Resolve, redriveCost, s.retryTasks, retryTasksBody{}, api.RetriedTasks{}},
		{get, "/tasks/{id}", access.Read, 1, s.getTask, nil, either{ledger.Task{}, Moved{}}},
		{get, "/tasks/{id}/payload", access.ReadPayload, 1, s.revealTask, nil, either{ledger.WholeTask{}, Moved{}}},
		{get, "/tasks/{id}/workflow_steps", access.Read, 1, s.taskSteps, nil, either{api.List[ledger.Step]{}, Moved{}}},
		{get, "/tasks/{id}/workflow_steps/{step}", access.Read, 1, s.taskStep, nil, either{ledger.Step{}, Moved{}}},
		{patch, "/tasks/{id}/workflow_steps/{step}", access.Resolve, 1, s.actOnStep, actOnStepBody{}, api.TreatedStep{}},
		{get, "/tasks/{id}/transitions", access.Read, 1, s.taskTransitions, nil, either{api.List[ledger.Transition]{}, Moved{}}},
		{get, "/tasks/{id}/step_transitions", access.Read, 1, s.taskStepTransitions, nil, either{api.List[ledger.StepTransition]{}, Moved{}}},
		{post, "/tasks/{id}/retry", access.Resolve, 1, s.retryTask, &nothing{}, api.RetriedTask{}},
		{post, "/tasks/{id}/cancel", access.Resolve, 1, s.cancelTask, &cancelTaskBody{}, api.CancelledTask{}},
		{post, "/tasks/{id}/dlq", access.Resolve, 1, s.deadLetterTask, deadLetterTaskBody{}, api.DeadLetteredTask{}},
		{post, "/tasks/{id}/unflag", access.Resolve, 1, s.unflagTask, &unflagTaskBody{}, api.UnflaggedTask{}},

		{get, "/detector", access.Read, 1, s.detectorStatus, nil, ledger.DetectorStatus{}},
		{post, "/detector/pause", access.Resolve, 1, s.pauseEngine(ledger.EngineDetector), &pauseEngineBody{}, ledger.Switch{}},
		{post, "/detector/resume", access.Resolve, 1, s.resumeEngine(ledger.EngineDetector), &nothing{}, api.ResumedEngine{}},
		{post, "/detector/run", access.Resolve, redriveCost, s.runDetector, &runDetectorBody{}, api.StaleTasks{}},

		{get, "/archive/status", access.Read, 1, s.archiverStatus, nil, ledger.Switch{}},
		{post, "/archive/pause", access.Resolve, 1, s.pauseEngine(ledger.EngineArchiver), &pauseEngineBody{}, ledger.Switch{}},
		{post, "/archive/resume", access.Resolve, 1, s.resumeEngine(ledger.EngineArchiver), &nothing{}, api.ResumedEngine{}},
		{get, "/archive/tasks", access.Read, 1, s.listArchive, nil, api.List[ledger.Task]{}},
		{post, "/archive/run", access.Purge, redriveCost, s.runArchive, &runArchiveBody{}, api.ArchiveRun{}},
		{get, "/archive/statistics", access.Read, 1, s.archiveStatistics, nil, api.List[ledger.ArchiveStatistics]{}},
		{get, "/archive/tasks/{id}", access.Read, 1, s.archivedTask, nil, ledger.Task{}},
		{get, "/archive/tasks/{id}/payload", access.ReadPayload, 1, s.revealArchivedTask, nil, ledger.WholeTask{}},
		{get, "/archive/tasks/{id}/workflow_steps", access.Read, 1, s.archivedSteps, nil, api.List[ledger.Step]{}},
		{get, "/archive/tasks/{id}/workflow_steps/{step}", access.Read, 1, s.archivedStep, nil, ledger.Step{}},
		{get, "/archive/tasks/{id}/transitions", access.Read, 1, s.archivedTransitions, nil, api.List[ledger.Transition]{}},
		{get, "/archive/tasks/{id}/step_transitions", access.Read, 1, s.archivedStepTransitions, nil, api.List[ledger.StepTransition]{}},

		{get, "/templates", access.Read, 1, s.listTemplates, nil, api.List[ledger.Template]{}},
		{post, "/templates", access.Admin, 1, s.applyTemplate, nil, either{Created{actions.AppliedTemplate{}}, actions.AppliedTemplate{}}},
		{get, "/templates/{namespace}/{name}", access.Read, 1, s.getTemplate, nil, ledger.Template{}},

		{get, "/outbox", access.Read, 1, s.listEvents, nil, api.List[relay.EventStatus]{}},
		{post, "/outbox/purge", access.Purge, redriveCost, s.purgeDelivered, purgeDeliveredBody{}, api.PurgedEvents{}},
		{get, "/outbox/{id}", access.Read, 1, s.getEvent, nil, relay.EventStatus{}},
		{get, "/outbox/{id}/payload", access.ReadPayload, 1, s.revealEvent, nil, api.EventPayload{}},
		{post, "/outbox/{id}/skip", access.Resolve, 1, s.skipEvent, skipEventBody{}, relay.EventStatus{}},
		{post, "/outbox/{id}/redrive", access.Redrive, redriveCost, s.redriveEvent, &nothing{}, relay.EventStatus{}},
		{get, "/holds", access.Read, 1, s.listHolds, nil, api.List[api.Hold]{}},
		{post, "/holds/{id}/release", access.Resolve, 1, s.releaseHold, &nothing{}, postgres.Released{}},
		{post, "/holds/{id}/give-up", access.Resolve, 1, s.giveUpHold, &nothing{}, postgres.GaveUp{}},

		{get, "/topics", access.Read, 1, s.listTopics, nil, api.Topics{}},
		{get, "/consumers", access.Read, 1, s.listConsumers, nil, api.ConsumerGroups{}},
		{get, "/doctor", access.Admin, 1, s.examine, nil, doctor.Report{}},
		{get, "/sources", access.Admin, 1, s.listSources, nil, api.Sources{}},
		{get, "/sources/{name}", access.Admin, 1, s.getSource, nil, api.Source{}},
		{post, "/sources/{name}/rejoin", access.Admin, 1, s.rejoinSource, &rejoinBody{}, api.Rejoin{}},
		{post, "/sources/{name}/forget", access.Admin, 1, s.forgetSource, &nothing{}, api.ForgottenSource{}},

		{get, "/me", access.Read, 1, s.getMe, nil, api.Me{}},
		{get, "/keys", access.Admin, 1, s.listKeys, nil, api.List[access.Key]{}},
		{post, "/keys", access.Admin, 1, s.createKey, createKeyBody{}, Created{api.CreatedKey{}}},
		{del, "/keys/{id}", access.Admin, 1, s.revokeKey, nil, access.Key{}},
		{get, "/audit", access.Admin, 1, s.listAudit, nil, api.List[access.Done]{}},
	}
	routes := make([]Route, len(rows))
	for i, r := range rows {
		routes[i] = Route{Method: r.method, Path: r.path, Scope: r.scope, Cost: r.cost, Handle: r.handle, Body: r.body, Answers: either{r.answer}}
		if several, is := r.answer.(either); is {
			routes[i].Answers = several
		}
		routes[i].reach()
		if routes[i].Of != "" {
			routes[i].Handle = s.seen(routes[i].Of, r.handle)
		}
		switch r.method + " " + r.path {
		case "POST /operations", "POST /tasks/retry":
			routes[i].Limit = PlanLimit
		case "GET /doctor", "GET /sources", "GET /sources/{name}", "POST /sources/{name}/rejoin":
			routes[i].Limit = ReportLimit
		case "POST /tasks":
			routes[i].Recall = s.createdTask
		}
	}
	return routes
}
