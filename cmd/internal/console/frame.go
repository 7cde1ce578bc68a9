package console

import (
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
)

// frame is what every page has around its view.
type frame struct {
	// Title is the page's, for the browser's tab.
	Title string
	// Name says which installation it is.
	Name string
	// Person is who is signed in; nil at the door.
	Person *access.Session
	// Sources says that the settings may name other databases than the desk's own.
	Sources bool
	// Nav are the pages to go to.
	Nav [][]navItem
	// Crumbs lead from the first page to this one. The last has no address.
	Crumbs []crumb
	// Actions are the scopes that the page's buttons need; what is missing is said once, and buttons point to it.
	Actions []access.Scope
	// Notice is what the last form did, or why not; NoticeKind is fine or waiting.
	Notice, NoticeKind string
	// Wrong says what is wrong with a parameter of the address; empty for nothing. The lists of such a page are empty.
	Wrong string
	// Read is when the figures of menu and strip were read; zero for never.
	Read time.Time
	// AsOf is when what the page itself shows was read.
	AsOf time.Time
	// Old says that the database is away, since Since: figures are the last ones, and nothing can be changed.
	Old   bool
	Since time.Time
	// State is how everything stands, for the strip; empty on the first page, which says it large.
	State say
	// View is the page's own.
	View any
}

// navItem is a page to go to.
type navItem struct {
	Name, Path string
	// Count stands behind the name; empty for none. Hot says that it is bad.
	Count   string
	Hot     bool
	Current bool
	// Closed says that the person's sources do not suffice for the page, and why.
	Closed string
}

// crumb is a step of the way to a page.
type crumb struct{ Name, Path string }

// newFrame is the frame of a page for a person.
func (c *Console) newFrame(v *visit, p page) *frame {
	f := &frame{Name: c.cfg.Name, Sources: c.cfg.Sources, Person: &v.person, Actions: p.actions, Title: p.name, AsOf: time.Now()}
	now, since, failed := c.figures.of(v.Context(), v.person.Sources)
	if now != nil {
		f.Read = now.At
		f.State = sayNow(now)
	}
	if failed != nil {
		f.Old, f.Since = true, since
	}
	for _, other := range c.table {
		if other.name == "" || !v.person.Actor().May(other.scope) || other.hidden != nil && other.hidden(c.cfg) {
			continue
		}
		path := other.path()
		item := navItem{Name: other.name, Path: path, Current: v.URL.Path == path || path != "/" && strings.HasPrefix(v.URL.Path, path+"/")}
		if err := other.reach().RefuseSources(v.person.Sources, v.person.Name); err != nil {
			item.Closed = refusal(err)
		}
		if other.count != nil && now != nil && item.Closed == "" {
			item.Count, item.Hot = other.count(now)
		}
		for len(f.Nav) <= other.block {
			f.Nav = append(f.Nav, nil)
		}
		f.Nav[other.block] = append(f.Nav[other.block], item)
	}
	if p.name != "" && p.path() != "/" {
		f.Crumbs = []crumb{{"Now", "/"}, {Name: p.name}}
	}
	return f
}

// under sets the way to a page below another.
func (f *frame) under(parent crumb, title string) {
	f.Title = title
	f.Crumbs = []crumb{{"Now", "/"}, parent, {Name: title}}
}

// May reports whether the person may do what needs a scope, now.
func (f *frame) May(scope string) bool {
	return !f.Old && f.Person != nil && f.Person.Actor().May(access.Scope(scope))
}

// Has reports whether the person has a scope, whatever stands in the way now.
func (f *frame) Has(scope string) bool {
	return f.Person != nil && f.Person.Actor().May(access.Scope(scope))
}

// Missing are the scopes of the page's buttons that the person does not have.
func (f *frame) Missing() []access.Scope {
	var out []access.Scope
	for _, s := range f.Actions {
		if !f.Has(string(s)) {
			out = append(out, s)
		}
	}
	return out
}

// WhyNot names the element of the page that says why a button does nothing.
func (f *frame) WhyNot(scope string) string {
	if f.Old && f.Has(scope) {
		return "why-old"
	}
	return "why-" + strings.ReplaceAll(scope, ":", "-")
}

// Rights says in a few words what the person may do.
func (f *frame) Rights() string {
	if f.Has(string(access.Admin)) {
		return "may do everything"
	}
	var verbs []string
	for _, r := range []struct {
		scope access.Scope
		verb  string
	}{{access.Resolve, "resolve"}, {access.Redrive, "redrive"}, {access.Purge, "purge"}} {
		if f.Has(string(r.scope)) {
			verbs = append(verbs, r.verb)
		}
	}
	switch len(verbs) {
	case 0:
		return "may read"
	case 1:
		return "may " + verbs[0]
	}
	return "may " + strings.Join(verbs[:len(verbs)-1], ", ") + " and " + verbs[len(verbs)-1]
}

// AwayFor is how long the database has been away.
func (f *frame) AwayFor() string {
	if f.Since.IsZero() {
		return "a moment"
	}
	return ageText(time.Since(f.Since).Round(time.Second))
}
