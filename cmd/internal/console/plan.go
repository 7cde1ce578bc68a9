package console

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
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
	// Name, Reason, Canary, Rate, Target, Headers, NoHeaders, Status and Notes are what the form has.
	Name, Reason, Canary, Rate, Target, Headers, Status, Notes string
	NoHeaders                                                  bool
	// AsText sends each header that cannot be read as the text of its own value.
	AsText bool
	// Repairs says that the headers of all its messages cannot be read: the plan must say what is sent instead.
	Repairs bool
	// Count is how many it is about now, and Exactly that the count is no estimate.
	Count   int64
	Exactly bool
	// Instead is the plan that ends when this one is made, because nothing of it was started; empty for none.
	Instead string
	// Already is an operation of the group that has not ended; nil for none.
	Already *operationView
	// Kept are events that fail in the same way and wait behind a circuit breaker, which no plan reaches; nil for none.
	Kept *keptEvents
	// Closed says that nothing that it is about is open any more, so that there is nothing to plan; Back leads away.
	Closed bool
	Back   pair
	// TooLarge warns that its messages are too large to arrive; empty where that is not known.
	TooLarge string
	// Title is what is planned.
	Title string
}

// maxAddress is how long the address of a form may be, in bytes.
const maxAddress = 7000

// errNothingPicked refuses a plan without a scope: an empty filter would be about everything.
var errNothingPicked = &httpapi.Error{Code: httpapi.Validation, Message: "Nothing is picked. Pick investigations, or take all that match."}

// needs are the scopes of a kind of operation, its own first; the API checks them.
func needs(kind dlq.OperationKind) []access.Scope {
	switch kind {
	case dlq.OpResolve:
		return []access.Scope{access.Resolve, access.Redrive}
	case dlq.OpPurge:
		return []access.Scope{access.Purge, access.Redrive}
	}
	return []access.Scope{access.Redrive}
}

// ScopeFor is the scope that decides whether the person may plan and command operations of a kind: the first that they lack.
func (f *frame) ScopeFor(kind dlq.OperationKind) string {
	all := needs(kind)
	for _, scope := range all {
		if !f.Has(string(scope)) {
			return string(scope)
		}
	}
	return string(all[0])
}

func showPlan(v *visit) error {
	f, q := v.filterOf()
	p := planView{Kind: dlq.OperationKind(v.param("kind")), IDs: v.URL.Query()["id"], Group: v.param("group"), Filter: f,
		Name: v.param("name"), Reason: v.param("why"), Canary: v.param("canary"), Rate: v.param("rate"), Target: v.param("target"), Headers: v.param("headers"),
		Status: v.param("status"), Instead: v.param("instead"), Notes: v.param("notes"), NoHeaders: v.param("no_headers") != "", AsText: v.param("headers_as_text") != ""}
	if p.Kind == "" {
		p.Kind = dlq.OpRedrive
	}
	switch p.Kind {
	case dlq.OpRedrive:
		p.Title = "Plan a redrive"
	case dlq.OpResolve:
		p.Title = "Plan to close investigations"
	case dlq.OpPurge:
		p.Title = "Plan to remove investigations for good"
	default:
		return &httpapi.Error{Code: httpapi.Validation, Message: "A plan is of the kind redrive, resolve or purge."}
	}
	if len(p.IDs) == 0 && p.Group == "" && len(q) == 0 {
		if v.param("all") == "" {
			v.console.cookies.notice(v.writer, v.Request, "waiting", refusal(errNothingPicked))
			http.Redirect(v.writer, v.Request, ownPath("/investigations?"+v.param("in")), http.StatusSeeOther)
			v.wrote = true
			return nil
		}
		p.All = true
	}
	subject := "messages"
	switch {
	case len(p.IDs) > 0:
		p.ScopeText = some(len(p.IDs), "investigation that was picked", "investigations that were picked")
		p.Group, p.Filter = "", api.EntryFilter{}
		p.Count, p.Exactly = int64(len(p.IDs)), true
		p.Back = pair{"Back to the investigations", "/investigations"}
		if err := v.closedOf(&p); err != nil {
			return err
		}
		if len(p.IDs) == 1 {
			p.Back = pair{"Back to the investigation", "/investigations/" + url.PathEscape(p.IDs[0])}
			d, err := get[api.Detail](v, "/dlq/"+url.PathEscape(p.IDs[0]), nil)
			if err != nil {
				return err
			}
			p.GroupTitle, p.Repairs = oneLine(d.Message, 300), letterOf(d, "").Unreadable
			if p.Kind == dlq.OpRedrive && isTooLarge(text(d.ErrorCode)) {
				p.TooLarge = sentence(tooLargeText(1, "", text(d.Topic), p.Target))
			}
		}
	case p.Group != "" && len(q) == 1:
		g, err := v.group(p.Group)
		if err != nil {
			return err
		}
		p.GroupTitle = clip(g.Title, 300)
		p.Count, p.Exactly, p.Closed = g.Pending, true, g.Pending == 0
		p.Back = pair{"Back to the cause", "/causes/" + p.Group}
		if p.Kind == dlq.OpRedrive && g.Parts.Template != "" {
			return &httpapi.Error{Code: httpapi.Conflict, Message: "This cause is about tasks: a redrive sends messages, and none of these has one. The page of the cause leads to the task; put it back to its beginning there."}
		}
		var way road
		err = together(
			into(&way, func() (road, error) { return v.roadOf(g) }),
			into(&p.Kept, func() (*keptEvents, error) { return v.keptOf(g) }),
			into(&p.Repairs, func() (bool, error) {
				if p.Kind != dlq.OpRedrive {
					return false, nil
				}
				return v.allUnreadable(q)
			}),
		)
		if err != nil {
			return err
		}
		if o := way.Operation; o != nil && !o.State.Ended() {
			p.Already = o
			if sendsNothing(&o.Operation) {
				p.Instead = o.UUID.String()
			}
		}
		p.ScopeText = fmt.Sprintf("all %s that are open now of the cause", count(g.Pending))
		if p.Closed {
			p.ScopeText = "nothing is open any more"
		}
		if p.Kind == dlq.OpRedrive && isTooLarge(g.Parts.ErrorCode) {
			p.TooLarge = sentence(tooLargeText(g.Pending, "", text(g.Topic), p.Target))
		}
		subject = strings.ToLower(strings.ReplaceAll(g.Reason, "_", "-"))
		if g.Topic != nil {
			subject += "-" + *g.Topic
		}
		p.Filter = api.EntryFilter{}
	default:
		p.Group = ""
		q.Set("resolution_status", cmp.Or(f.Status, string(dlq.Pending)))
		q.Set("page_size", "1")
		found, err := get[api.EntryList](v, "/dlq", q)
		if err != nil {
			return err
		}
		all := "all"
		if found.Total != nil {
			p.Count, p.Exactly = *found.Total, *found.TotalExact
			all = "all " + count(p.Count)
			if !p.Exactly {
				all = "about " + count(p.Count)
			}
		}
		match := " that are open and match "
		if f.Status != "" && f.Status != string(dlq.Pending) {
			match = " that match "
		}
		p.ScopeText = all + match + quoted(searchText(f))
		if f == (api.EntryFilter{}) {
			p.ScopeText = all + " that are open"
		}
		for _, field := range api.Fields(&p.Filter) {
			if *field.Text != "" {
				p.Fields = append(p.Fields, field)
			}
		}
	}
	if p.Target != "" && message.ValidTopic(p.Target) != nil { // it is refused, and takes nothing
		p.TooLarge = ""
	}
	if p.Name == "" {
		p.Name = clip(subject, 60) + " " + time.Now().UTC().Format("15:04:05") // another plan may be of the same minute
	}
	if !v.URL.Query().Has("canary") {
		p.Canary, p.Rate = usualCanary(p.Count, p.Exactly), "20"
	}
	v.frame.Crumbs = []crumb{{"Now", "/"}, {"Operations", "/operations"}, {Name: p.Title}}
	v.frame.Title, v.frame.View = p.Title, p
	return nil
}

// Needs is the scope without which the plan cannot be made, for its button: headers must be given where none can be read.
func (p planView) Needs(f *frame) string {
	if p.Kind == dlq.OpRedrive && p.Repairs && f.Has(string(access.Redrive)) {
		return string(access.Edit)
	}
	return f.ScopeFor(p.Kind)
}

// allUnreadable reports whether the headers of all open investigations that a filter selects cannot be read: the relay gave
// each of them up for that. Where their number is an estimate, it is not known, and not said.
func (v *visit) allUnreadable(filter url.Values) (bool, error) {
	q := maps.Clone(filter)
	q.Set("resolution_status", string(dlq.Pending))
	q.Set("page_size", "1")
	all, err := get[api.EntryList](v, "/dlq", q)
	if err != nil || all.Total == nil || !*all.TotalExact || *all.Total == 0 {
		return false, err
	}
	for name, value := range map[string]string{"error_code": "INVALID_HEADERS", "subject_type": string(dlq.SubjectEvent)} {
		if given := filter.Get(name); given != "" && given != value {
			return false, nil
		}
		q.Set(name, value)
	}
	unreadable, err := get[api.EntryList](v, "/dlq", q)
	return err == nil && unreadable.Total != nil && *unreadable.TotalExact && *unreadable.Total == *all.Total, err
}

// closedOf finds out whether a plan of picked investigations has nothing to do, because all of them are closed.
func (v *visit) closedOf(p *planView) error {
	var ids []uuid.UUID
	for _, id := range p.IDs {
		one, err := api.ParseID(id)
		if err != nil {
			return nil // the API says what is wrong with it
		}
		ids = append(ids, one)
	}
	closed, err := v.console.cfg.Investigations.AllClosed(v.ctx, ids)
	p.Closed = p.Kind.RefuseClosed(closed, len(ids)) != nil
	return err
}

// allPickedUnreadable is allUnreadable for investigations that were picked: for the open ones. Of very many it is not known, and
// not said.
func (v *visit) allPickedUnreadable(ids []string) (bool, error) {
	if len(ids) > maxRest {
		return false, nil
	}
	open := false
	for _, id := range ids {
		d, err := get[api.Detail](v, "/dlq/"+url.PathEscape(id), nil)
		if err != nil || d.Status == dlq.Pending && !letterOf(d, "").Unreadable {
			return false, err
		}
		open = open || d.Status == dlq.Pending
	}
	return open, nil
}

// refuseToSendNothing refuses the plan of a redrive that skips all its messages, because the form says of no header what is
// sent instead.
func (v *visit) refuseToSendNothing(filter *api.EntryFilter) error {
	var unreadable bool
	var err error
	if ids := v.PostForm["id"]; len(ids) > 0 {
		unreadable, err = v.allPickedUnreadable(ids)
	} else {
		q := url.Values{}
		for _, field := range api.Fields(filter) {
			if *field.Text != "" {
				q.Set(field.Name, *field.Text)
			}
		}
		unreadable, err = v.allUnreadable(q)
	}
	if err != nil || !unreadable {
		return err
	}
	const nothing = "This plan would send nothing: the headers of all its messages cannot be read. "
	if !v.person.Actor().May(access.Edit) {
		return &httpapi.Error{Code: httpapi.Forbidden, Message: nothing + "Only a person with the scope redrive:edit can say which headers are sent instead."}
	}
	return &httpapi.Error{Code: httpapi.Validation, Message: nothing + "Tick “Send each header that cannot be read as the text of its own value”, or give headers, or tick “Send them without any headers”."}
}

// usualCanary is how many a plan sends first, unless the person says otherwise: one at least goes behind them. A count that is
// an estimate may be 0 where there are many.
func usualCanary(n int64, exactly bool) string {
	if !exactly {
		return "5"
	}
	return strconv.FormatInt(min(5, max(n-1, 0)), 10)
}

// planForm is the address of the form of a plan with what was written into it, without the texts that are too long for an address.
func planForm(form url.Values) string {
	to := "/plan?" + form.Encode()
	if len(to) <= maxAddress {
		return to
	}
	short := maps.Clone(form)
	for _, name := range []string{"notes", "headers", "why"} {
		short.Del(name)
	}
	if to = "/plan?" + short.Encode(); len(to) > maxAddress {
		return "/investigations"
	}
	return to
}

// makePlan freezes what the form selects. A refusal leads back to the form, with all that it had.
func makePlan(v *visit) (string, error) {
	back := planForm(v.PostForm)
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
		}
		for _, name := range []string{"headers_as_text", "no_headers"} {
			if v.PostFormValue(name) != "" {
				options[name] = true
			}
		}
	}
	for _, name := range []string{"status", "notes"} {
		if text := v.PostFormValue(name); kind == dlq.OpResolve && text != "" {
			options[name] = text
		}
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
	if n, is := options["canary"].(float64); is && len(v.PostForm["id"]) > 0 && int(n) > len(v.PostForm["id"]) {
		return back, &httpapi.Error{Code: httpapi.Validation, Message: fmt.Sprintf("The canary of %d is larger than the plan, which is about %d.", int(n), len(v.PostForm["id"]))}
	}
	v.mayTake(httpapi.PlanLimit)
	if kind == dlq.OpRedrive && options["headers"] == nil && options["headers_as_text"] == nil && options["no_headers"] == nil {
		if err := v.refuseToSendNothing(&filter); err != nil {
			return back, err
		}
	}
	body := map[string]any{"kind": kind, "name": v.PostFormValue("name"), "reason": v.PostFormValue("why"), "scope": scope, "options": options}
	o, err := ask[api.Operation](v, http.MethodPost, "/operations", nil, body)
	if err != nil {
		return back, err
	}
	to := "/operations/" + o.UUID.String()
	if id := v.PostFormValue("instead"); id != "" {
		return to, v.endInstead(id)
	}
	return to, nil
}
