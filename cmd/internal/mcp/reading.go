package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

type statsInput struct{}

// page is what every list takes.
type page struct {
	PageSize int    `json:"page_size,omitempty" jsonschema:"how many to list at most"`
	After    string `json:"after,omitempty" jsonschema:"the next of the page before, to go on"`
}

type groupsInput struct {
	api.GroupFilter
	page
}

type listInput struct {
	api.EntryFilter
	page
}

type eventsInput struct {
	api.EventFilter
	Order string `json:"order_dir,omitempty" jsonschema:"desc for the newest first, which is the default, or asc for the oldest first"`
	page
}

type idInput struct {
	ID string `json:"id" jsonschema:"a uuid"`
}

type commentsInput struct {
	ID string `json:"id" jsonschema:"a group_uuid or a dlq_entry_uuid"`
	page
}

type itemsInput struct {
	ID string `json:"id" jsonschema:"the operation_uuid of an operation"`
	itemsQuery
}

type itemsQuery struct {
	State   string `json:"state,omitempty" jsonschema:"only items in this state: waiting, done, skipped or failed"`
	Outcome string `json:"outcome,omitempty" jsonschema:"only items that were sent again with this outcome: sent, delivered or came_back"`
	page
}

// addReading registers the tools that change nothing. All need the scope read.
func (s *Server) addReading() {
	read(s, "dlq_stats", "Dead letters and the outbox in numbers",
		"Counts investigations by reason, error code and status, and events of the outbox by state; lists what is held and why, and operations under way.",
		func(ctx context.Context, _ statsInput) (json.RawMessage, error) {
			letters, err := s.ask(ctx, "/dlq/stats", nil)
			if err != nil {
				return nil, err
			}
			if !access.ActorOf(ctx).Sources.Has(dlq.MainSource) {
				return json.Marshal(map[string]json.RawMessage{"dlq": letters})
			}
			status, err := s.ask(ctx, "/status", nil)
			if err != nil {
				return nil, err
			}
			if status, err = withoutKeys(status); err != nil {
				return nil, err
			}
			return json.Marshal(map[string]json.RawMessage{"dlq": letters, "status": status})
		}, schemaOf[statsAnswer]())
	read(s, "dlq_groups", "Causes of dead letters",
		"Lists groups of investigations that have one cause, the last seen first. Begin here; dlq_why explains one.",
		func(ctx context.Context, in groupsInput) (json.RawMessage, error) { return s.get(ctx, "/groups", in) },
		schemaOf[api.List[api.Group]]())
	read(s, "dlq_list", "List investigations",
		"Lists investigations, the newest first, without their messages. dlq_show has one whole.",
		func(ctx context.Context, in listInput) (json.RawMessage, error) { return s.get(ctx, "/dlq", in) },
		schemaOf[api.EntryList]())
	read(s, "dlq_show", "Show one investigation",
		"Shows an investigation by its dlq_entry_uuid, or the newest of a task by task_uuid: the error, letters, redrives and who did what; and, to keys with the scope read:payload, the message as far as redaction lets it be seen, which is in the audit log. Long texts are cut.",
		s.show, schemaOf[api.Detail]())
	read(s, "dlq_why", "Why something is a dead letter",
		"Explains a group by its group_uuid, or that of an investigation by its dlq_entry_uuid: what its members have in common, since when and where they come from, and which to look at first.",
		s.why, schemaOf[whyAnswer]())
	read(s, "dlq_comments", "What people wrote about dead letters",
		"Lists the comments on a group by its group_uuid, or on an investigation by its dlq_entry_uuid, the oldest first. A deleted comment has no text.",
		s.comments, schemaOf[api.List[api.Comment]]())
	read(s, "outbox_list", "List events of the outbox",
		"Lists events, the newest first, without their keys and payloads: where each stands, why it failed, and which hold it waits behind. A page may be short and have a next one.",
		func(ctx context.Context, in eventsInput) (json.RawMessage, error) {
			events, err := s.get(ctx, "/outbox", in)
			if err != nil {
				return nil, err
			}
			return withoutEventKeys(events)
		}, schemaOf[api.List[relay.EventStatus]]())
	read(s, "op_items", "What became of an operation's items",
		"Lists the investigations of an operation in their order, each with topic, event and error: which were sent again, delivered, came back dead (and which investigation goes on), or were skipped and why. dlq_stats has the operations under way.",
		s.items, schemaOf[api.List[api.OperationItem]]())
}

// comments lists the comments on a group, or on an investigation.
func (s *Server) comments(ctx context.Context, in commentsInput) (json.RawMessage, error) {
	id, err := api.ParseID(in.ID)
	if err != nil {
		return nil, refuse(httpapi.Validation, "id must be a group_uuid or a dlq_entry_uuid: %s", err)
	}
	list, err := s.get(ctx, "/groups/"+id.String()+"/comments", in.page)
	if is(err, httpapi.NotFound) {
		list, err = s.get(ctx, "/dlq/"+id.String()+"/comments", in.page)
	}
	if is(err, httpapi.NotFound) {
		return nil, refuse(httpapi.NotFound, "there is neither a group nor an investigation with this id")
	}
	return list, err
}

// items lists items of an operation.
func (s *Server) items(ctx context.Context, in itemsInput) (json.RawMessage, error) {
	id, err := api.ParseID(in.ID)
	if err != nil {
		return nil, refuse(httpapi.Validation, "id must be the operation_uuid of an operation")
	}
	items, err := s.get(ctx, "/operations/"+id.String()+"/items", in.itemsQuery)
	if err != nil {
		return nil, err
	}
	return withoutEventKeys(items)
}

// read registers a tool that changes nothing; answer is the schema of what get returns.
func read[In any](s *Server, name, title, description string, get func(context.Context, In) (json.RawMessage, error), answer *jsonschema.Schema) {
	no := false
	sdk.AddTool(s.sdk, &sdk.Tool{
		Name: name, Title: title, Description: description + " " + fenceRule, OutputSchema: untrusted(answer),
		Annotations: &sdk.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no},
	}, call(s, name, s.cfg.Timeout, askLess[In], func(ctx context.Context, in In) (*sdk.CallToolResult, any, error) {
		if err := s.take(ctx, 1); err != nil {
			return nil, nil, err
		}
		data, err := get(ctx, in)
		if err == nil {
			data, err = withhold(ctx, data)
		}
		if err != nil {
			return nil, nil, err
		}
		return distrusted("The answer of "+name+" follows.", data)
	}))
}

// askLess is the hint of tools that read.
func askLess[In any](In) string { return "ask for less, or try again" }

// take counts a call of the actor's, as so many.
func (s *Server) take(ctx context.Context, cost int) error {
	if wait := s.cfg.Calls.Take(access.ActorOf(ctx).KeyID, cost); wait > 0 {
		return refuse(httpapi.RateLimited, "this key calls too often; try again in %d s", int(wait.Seconds())+1)
	}
	return nil
}

// ask reads what an operation of the API answers, as JSON.
func (s *Server) ask(ctx context.Context, path string, query url.Values) (json.RawMessage, error) {
	data, err := s.cfg.API.Call(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

// get reads a list; the arguments of the tool have the names of the parameters.
func (s *Server) get(ctx context.Context, path string, in any) (json.RawMessage, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	var given map[string]any
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, err
	}
	query := url.Values{}
	for name, value := range given {
		query.Set(name, fmt.Sprint(value))
	}
	return s.ask(ctx, path, query)
}

// getOne reads what has a uuid.
func (s *Server) getOne(ctx context.Context, path, id string) (json.RawMessage, error) {
	parsed, err := api.ParseID(id)
	if err != nil {
		return nil, refuse(httpapi.Validation, "id is not what lists show: %s", err)
	}
	return s.ask(ctx, path+parsed.String(), nil)
}

// show shows an investigation. The audit log notes the caller before its message is shown.
func (s *Server) show(ctx context.Context, in idInput) (json.RawMessage, error) {
	entry, err := s.getOne(ctx, "/dlq/", in.ID)
	if err != nil || !access.ActorOf(ctx).May(access.ReadPayload) {
		return entry, err
	}
	var of struct {
		ID     string `json:"dlq_entry_uuid"`
		Source string `json:"source"`
	}
	if err := json.Unmarshal(entry, &of); err != nil {
		return nil, err
	}
	return entry, s.cfg.Access.Look(ctx, "payload.show", "entry", of.ID, access.Sources{of.Source}, map[string]any{"via": "mcp"})
}

// why shows a group, or the one that an investigation belongs to.
func (s *Server) why(ctx context.Context, in idInput) (json.RawMessage, error) {
	group, err := s.getOne(ctx, "/groups/", in.ID)
	if err == nil {
		return json.Marshal(whyRaw{Group: group})
	} else if !is(err, httpapi.NotFound) {
		return nil, err
	}
	entry, err := s.getOne(ctx, "/dlq/", in.ID)
	if is(err, httpapi.NotFound) {
		return nil, refuse(httpapi.NotFound, "there is neither a group nor an investigation with this id")
	} else if err != nil {
		return nil, err
	}
	var of struct {
		ID      string  `json:"dlq_entry_uuid"`
		Group   *string `json:"group_uuid"`
		Message string  `json:"message"`
		Code    *string `json:"error_code"`
	}
	if err := json.Unmarshal(entry, &of); err != nil {
		return nil, err
	}
	answer := whyRaw{Entry: &whyEntry{of.ID, of.Message, of.Code}}
	if of.Group != nil {
		if answer.Group, err = s.getOne(ctx, "/groups/", *of.Group); err != nil {
			return nil, err
		}
	}
	return json.Marshal(answer)
}
