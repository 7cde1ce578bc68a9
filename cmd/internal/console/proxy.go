package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/forwarded"
)

// proxied is a person whom a trusted proxy names.
type proxied struct {
	name   string
	groups []string
	grant  access.Grant
}

// proxied returns the person whom a trusted proxy names in the headers of the settings. Headers of anybody else say nothing,
// and neither does a header that is there twice: a client may have written one of the two.
func (c *Console) proxied(r *http.Request) (proxied, bool) {
	users := r.Header.Values(c.cfg.UserHeader)
	if c.cfg.UserHeader == "" || !forwarded.Trusted(r) || len(users) != 1 || strings.TrimSpace(users[0]) == "" {
		return proxied{}, false
	}
	who := proxied{name: strings.TrimSpace(users[0])}
	lists := r.Header.Values(c.cfg.GroupsHeader)
	if len(lists) > 1 {
		return proxied{}, false
	}
	for group := range strings.SplitSeq(strings.Join(lists, ""), ",") {
		if group = strings.TrimSpace(group); group != "" {
			who.groups = append(who.groups, group)
		}
	}
	who.grant = c.cfg.Groups.Of(who.groups)
	return who, true
}

// stillNamed reports whether a session that the word of a proxy began is that of the person whom the proxy names now, with
// the same scopes and sources. A person who signs out there, or loses a group, loses the session with the next request.
func (c *Console) stillNamed(r *http.Request, n access.Session) bool {
	if n.By != access.ByProxy {
		return true
	}
	who, is := c.proxied(r)
	return is && who.name == n.Name && slices.Equal(who.grant.Scopes, n.Scopes) && slices.Equal(who.grant.Sources, n.Sources)
}

// loginByProxy lets in whom a trusted proxy names.
func (c *Console) loginByProxy(w http.ResponseWriter, r *http.Request) {
	view := loginView{Next: ownPath(r.PostFormValue("next"))}
	who, is := c.proxied(r)
	if !is {
		view.Refused = "No trusted proxy names you. Sign in at the proxy, or with a key."
		c.refused(w, r, http.StatusUnauthorized, view)
		return
	}
	token, ok := c.letIn(w, r, view, named{name: who.name, groups: who.groups, by: access.ByProxy,
		details: map[string]any{"address": forwarded.Address(r)},
		source:  "The groups that the proxy gave: " + nameList(who.groups, namedGroups) + "."})
	if !ok {
		return
	}
	c.signedIn(w, r, token, view.Next)
}
