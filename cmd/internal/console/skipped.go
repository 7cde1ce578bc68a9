package console

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// warning is what may surprise about an operation. Path leads to the investigations that it is about; empty for none.
type warning struct{ Text, Path string }

// maxRest is how many items the form for a new plan is given by their ids: its address has them. No more are looked at for a
// warning.
const maxRest = 100

// headerNamed finds the header that an error message is about.
var headerNamed = regexp.MustCompile(`header ("(?:[^"\\]|\\.)+")`)

// skipped says which headers keep messages from being sent, and offers a new plan of what was not sent.
func (v *visit) skipped(view *operationView) error {
	o := &view.Operation
	if o.Kind != dlq.OpRedrive {
		return nil
	}
	ended := o.State.Ended() && o.Skipped > 0
	if !ended && (o.State.Ended() || unreadable(o) == 0) {
		return nil
	}
	q := url.Values{"page_size": {fmt.Sprint(maxRest)}}
	if ended {
		q.Set("state", "skipped")
	}
	found, err := get[api.List[api.OperationItem]](v, "/operations/"+v.id()+"/items", q)
	if err != nil {
		return err
	}
	var unreadable []uuid.UUID
	ids := url.Values{"kind": {string(dlq.OpRedrive)}}
	for _, item := range found.Items {
		if !ended || item.Reason != nil && *item.Reason == dlq.UnreadableHeaders {
			unreadable = append(unreadable, item.Entry)
		}
		if item.Reason == nil || !item.Reason.Final() {
			ids.Add("id", item.Entry.String())
		}
	}
	messages, err := v.console.cfg.Investigations.Messages(v.ctx, unreadable)
	if err != nil {
		return err
	}
	named := map[string]int64{}
	for _, message := range messages {
		if m := headerNamed.FindString(message); m != "" {
			named[m]++
		}
	}
	of := ""
	if found.Next != nil {
		of = "of the first " + count(maxRest) + " "
	}
	for _, m := range slices.Sorted(maps.Keys(named)) {
		name := strings.Trim(strings.TrimPrefix(m, "header "), `"`)
		given := o.Options.HeadersAsText || slices.ContainsFunc(view.Headers, func(h pair) bool { return h.Name == name })
		if given && !ended {
			continue
		}
		one := of + "is about the header " + quoted(clip(name, 100)) + ", which cannot be read"
		w := warning{Text: some(named[m], one, strings.Replace(one, "is about", "are about", 1))}
		filter := url.Values{"resolution_status": {string(dlq.Pending)}, "text": {m}}
		if o.Scope.Group != nil {
			filter.Set("group", o.Scope.Group.String())
		}
		w.Path = "/investigations?" + filter.Encode()
		view.Warnings = append(view.Warnings, w)
	}
	switch {
	case ended && found.Next == nil && len(ids["id"]) > 0:
		view.Rest, view.RestVerb = "/plan?"+ids.Encode(), "Plan the "+count(len(ids["id"]))+" again"
	case ended && found.Next == nil: // another plan would skip them, too
	case ended:
		view.Rest, view.RestVerb = view.Again, "Plan what is open again"
	}
	return nil
}
