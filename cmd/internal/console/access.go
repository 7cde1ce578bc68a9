package console

import (
	"cmp"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// accessView is the person who is signed in, and what they may do.
type accessView struct {
	access.Session
	// How says how a person without a key signed in.
	How string
	// ByGroups says that the scopes come from the person's groups.
	ByGroups bool
	Scopes   []scopeRow
	// Others are the newest of the person's other sessions, of OtherCount.
	Others     []access.OwnSession
	OtherCount int
}

// scopeRow is a scope, what it allows, and whether the person has it.
type scopeRow struct {
	Scope access.Scope
	What  string
	Has   bool
}

// scopeTexts say what scopes allow here.
var scopeTexts = map[access.Scope]string{
	access.Read:        "see every page but Audit and Doctor, without what the rules of redaction hide",
	access.ReadPayload: "see keys, payloads and headers as they are; each look is in the audit log",
	access.Resolve:     "assign, comment, mute, merge, split and close; release holds; give events up; treat tasks and steps; pause the detectors and the archivers; with redrive: close many by a plan",
	access.Redrive:     "plan, start, halt and end a redrive; send a message again",
	access.Edit:        "change a message or its headers before it is sent again",
	access.Purge:       "with redrive: plan, start, halt and end the removal of investigations",
	access.Admin:       "do everything, and see the audit log and the doctor",
}

func showAccess(v *visit) error {
	view := accessView{Session: v.person, How: "You signed in by a one-time link."}
	switch v.person.By {
	case access.ByOIDC:
		view.How, view.ByGroups = "You signed in with "+cmp.Or(v.console.cfg.ProviderLabel, "the OpenID provider")+".", true
	case access.ByProxy:
		view.How, view.ByGroups = "You signed in by the proxy before this console.", true
	}
	for _, s := range access.Scopes() {
		view.Scopes = append(view.Scopes, scopeRow{s, scopeTexts[s], v.frame.Has(string(s))})
	}
	var err error
	if view.Others, view.OtherCount, err = v.console.cfg.Sessions.OtherSessionsOf(v.ctx, v.person); err != nil {
		return err
	}
	v.frame.View = view
	return nil
}

// endSessions ends one other session of the person, or all others.
func endSessions(v *visit) (string, error) {
	const back = "/access"
	var ended []string
	var err error
	if v.PostFormValue("which") == "others" {
		ended, err = v.console.cfg.Sessions.EndOtherSessionsOf(v.ctx, v.person)
	} else {
		ended, err = v.console.cfg.Sessions.EndSessionsOf(v.ctx, v.person, v.PostFormValue("id"))
	}
	v.console.known.forgetSessions(ended...) // also after an error: the commit may have been
	if err != nil {
		return back, err
	}
	if len(ended) == 0 {
		return back, &httpapi.Error{Code: httpapi.Conflict, Message: "No session was ended. It had ended before, or is not yours."}
	}
	v.say("%s ended. What they were doing is refused from now on.", some(len(ended), "session is", "sessions are"))
	return back, nil
}
