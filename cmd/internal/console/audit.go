package console

import (
	"net/url"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
)

// auditView is a page of the audit log, the newest row first.
type auditView struct {
	Rows []access.Done
	// Fields are the filter as the form has it.
	Fields []api.Field
	// Filtered says that the list is not the whole log.
	Filtered bool
	// More and First are addresses of other pages; empty for none.
	More, First string
}

// auditFields are the filters of the audit log, as the API has them.
var auditFields = []string{"actor", "action", "target_type", "target_id", "from", "to"}

func showAudit(v *visit) error {
	view := auditView{}
	q := url.Values{"page_size": {"50"}}
	for _, name := range auditFields {
		value := v.param(name)
		view.Fields = append(view.Fields, api.Field{Name: name, Text: &value})
		if value != "" {
			q.Set(name, value)
			view.Filtered = true
		}
	}
	if after := v.param("after"); after != "" {
		q.Set("after", after)
		view.First = v.with("after", "")
	}
	found, err := get[api.List[access.Done]](v, "/audit", q)
	if err != nil {
		return err
	}
	if view.Rows = found.Items; found.Next != nil {
		view.More = v.with("after", *found.Next)
	}
	v.frame.View = view
	return nil
}

// accessView is the person who is signed in, and what they may do.
type accessView struct {
	access.Session
	Scopes []scopeRow
}

// scopeRow is a scope, what it allows, and whether the person has it.
type scopeRow struct {
	Scope access.Scope
	What  string
	Has   bool
}

// scopeTexts say what scopes allow here.
var scopeTexts = map[access.Scope]string{
	access.Read:        "see every page but the audit log, without what the rules of redaction hide",
	access.ReadPayload: "see keys, payloads and headers as they are; each look is in the audit log",
	access.Resolve:     "assign, mute, merge, split and close; release holds; give events up; treat tasks and steps",
	access.Redrive:     "plan, start, halt and end a redrive; send a letter again; put an event back in its place",
	access.Edit:        "change a message or its headers before it is sent again",
	access.Purge:       "plan the removal of investigations",
	access.Admin:       "do everything, and see the audit log",
}

func showAccess(v *visit) error {
	view := accessView{Session: v.person}
	for _, s := range access.Scopes() {
		view.Scopes = append(view.Scopes, scopeRow{s, scopeTexts[s], v.frame.Has(string(s))})
	}
	v.frame.View = view
	return nil
}
