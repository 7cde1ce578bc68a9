package console

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
)

// planView is the form of a new operation. Its address has what was written into it, so that a refusal loses nothing;
// texts that are too long for an address are left out.
type planView struct {
	Kind dlq.OperationKind
	// IDs, Group or Filter are its scope; ScopeText says it in words.
	IDs       []string
	Group     string
	Filter    api.EntryFilter
	Fields    []api.Field
	ScopeText string
	// GroupTitle is the title of the group.
	GroupTitle string
	// All says that everything open is its scope, because the person asked for all.
	All bool
	// Name, Reason, Canary, Rate, Target, Headers, NoHeaders and Notes are what the form has.
	Name, Reason, Canary, Rate, Target, Headers, Notes string
	NoHeaders                                          bool
	// Repairs says that headers can be given: the cause is about headers that cannot be read.
	Repairs bool
	// Needs is what is needed to make it; Verb is the button's.
	Needs, Verb, Title string
}

// maxAddress is how long the address of a form may be, in bytes.
const maxAddress = 7000

// errNothingPicked refuses a plan without a scope: an empty filter would be about everything.
var errNothingPicked = &httpapi.Error{Code: httpapi.Validation, Message: "Nothing is picked. Pick investigations, or take all that match."}

// needs is the scope of a kind of operation; the API checks it.
func needs(kind dlq.OperationKind) access.Scope {
	switch kind {
	case dlq.OpResolve:
		return access.Resolve
	case dlq.OpPurge:
		return access.Purge
	}
	return access.Redrive
}

func showPlan(v *visit) error {
	f, q := v.filterOf()
	p := planView{Kind: dlq.OperationKind(v.param("kind")), IDs: v.URL.Query()["id"], Group: v.param("group"), Filter: f,
		Name: v.param("name"), Reason: v.param("why"), Canary: v.param("canary"), Rate: v.param("rate"), Target: v.param("target"), Headers: v.param("headers"),
		Notes: v.param("notes"), NoHeaders: v.param("no_headers") != ""}
	if p.Kind == "" {
		p.Kind = dlq.OpRedrive
	}
	switch p.Kind {
	case dlq.OpRedrive:
		p.Title, p.Verb = "Plan a redrive", "Make the plan"
	case dlq.OpResolve:
		p.Title, p.Verb = "Plan to close investigations", "Make the plan"
	case dlq.OpPurge:
		p.Title, p.Verb = "Plan to remove investigations for good", "Make the plan"
	default:
		return &httpapi.Error{Code: httpapi.Validation, Message: "A plan is of the kind redrive, resolve or purge."}
	}
	p.Needs = string(needs(p.Kind))
	if len(p.IDs) == 0 && p.Group == "" && len(q) == 0 {
		if v.param("all") == "" {
			return errNothingPicked
		}
		p.All = true
	}
	subject := "letters"
	switch {
	case len(p.IDs) > 0:
		p.ScopeText = some(len(p.IDs), "investigation that was picked", "investigations that were picked")
		p.Group, p.Filter = "", api.EntryFilter{}
	case p.Group != "" && len(q) == 1:
		g, err := get[api.GroupDetail](v, "/groups/"+url.PathEscape(p.Group), nil)
		if err != nil {
			return err
		}
		p.GroupTitle = causeTitle("", g.Parts, g.Title)
		p.ScopeText = fmt.Sprintf("all %s that are open now of the cause", count(g.Pending))
		p.Repairs = g.Parts.ErrorCode == "INVALID_HEADERS"
		subject = strings.ToLower(strings.ReplaceAll(g.Reason, "_", "-"))
		if g.Topic != nil {
			subject += "-" + *g.Topic
		}
		p.Filter = api.EntryFilter{}
	default:
		p.Group = ""
		p.ScopeText = "all that are open and match " + quoted(searchText(f))
		if len(q) == 0 {
			p.ScopeText = "all that are open"
		}
		for _, field := range api.Fields(&p.Filter) {
			if *field.Text != "" {
				p.Fields = append(p.Fields, field)
			}
		}
	}
	if p.Name == "" {
		p.Name = clip(subject, 60) + " " + time.Now().UTC().Format("15:04")
	}
	if !v.URL.Query().Has("canary") {
		p.Canary, p.Rate = "5", "20"
	}
	v.frame.Crumbs = []crumb{{"Now", "/"}, {"Operations", "/operations"}, {Name: p.Title}}
	v.frame.Title, v.frame.View = p.Title, p
	return nil
}

// makePlan freezes what the form selects. A refusal leads back to the form, with all that it had.
func makePlan(v *visit) (string, error) {
	if err := v.ParseForm(); err != nil {
		return "/plan", &httpapi.Error{Code: httpapi.Validation, Message: "The form could not be read. Pick fewer investigations, or all that match."}
	}
	back := "/plan?" + v.PostForm.Encode()
	if len(back) > maxAddress {
		short := maps.Clone(v.PostForm)
		for _, name := range []string{"notes", "headers", "why"} {
			short.Del(name)
		}
		if back = "/plan?" + short.Encode(); len(back) > maxAddress {
			back = "/investigations"
		}
	}
	kind := dlq.OperationKind(v.PostFormValue("kind"))
	options := map[string]any{}
	if kind == dlq.OpRedrive {
		for name, into := range map[string]string{"canary": "canary", "rate": "rate"} {
			text := strings.TrimSpace(v.PostFormValue(name))
			if text == "" {
				continue
			}
			n, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || name == "canary" && n != float64(int(n)) {
				return back, &httpapi.Error{Code: httpapi.Validation, Message: fmt.Sprintf("%s is %q; it must be a number.", sentence(name)[:len(name)], clip(text, 40))}
			}
			options[into] = n
		}
		if target := strings.TrimSpace(v.PostFormValue("target")); target != "" {
			options["target"] = target
		}
		headers, err := parseHeaderLines(v.PostFormValue("headers"))
		if err != nil {
			return back, err
		}
		if len(headers) > 0 {
			options["headers"] = headers
		} else if v.PostFormValue("no_headers") != "" {
			options["no_headers"] = true
		}
	}
	if notes := v.PostFormValue("notes"); kind == dlq.OpResolve && notes != "" {
		options["notes"] = notes
	}
	scope := map[string]any{}
	var filter api.EntryFilter
	for _, field := range api.Fields(&filter) {
		*field.Text = v.PostFormValue(field.Name)
	}
	switch ids := v.PostForm["id"]; {
	case len(ids) > 0:
		scope["ids"] = ids
	case filter != (api.EntryFilter{}) && filter != (api.EntryFilter{Group: filter.Group}):
		scope["filter"] = filter
	case filter.Group != "":
		scope["group"] = filter.Group
	case v.PostFormValue("all") != "":
		scope["filter"] = map[string]any{}
	default:
		return back, errNothingPicked
	}
	body := map[string]any{"kind": kind, "name": v.PostFormValue("name"), "reason": v.PostFormValue("why"), "scope": scope, "options": options}
	o, err := ask[api.Operation](v, http.MethodPost, "/operations", nil, body)
	if err != nil {
		return back, err
	}
	return "/operations/" + o.UUID.String(), nil
}
