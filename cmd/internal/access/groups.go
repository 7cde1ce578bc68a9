package access

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Grant is what people may do, and at which sources.
type Grant struct {
	Scopes  []Scope
	Sources Sources
}

// GroupScopes are what people may do by the groups that they are in.
type GroupScopes map[string]Grant

// ParseGroupScopes reads rules such as sre=read+resolve, or orders-team=read+resolve@orders+billing: what follows the @ are the
// sources, which are all where there is no @. A rule is cut at its last =, because names of groups may have one; in the name %2C
// is a comma and %25 is a %.
func ParseGroupScopes(rules []string) (GroupScopes, error) {
	all := GroupScopes{}
	for _, rule := range rules {
		at := strings.LastIndexByte(rule, '=')
		if at < 0 {
			return nil, fmt.Errorf("each must be GROUP=SCOPE+SCOPE, or GROUP=SCOPE+SCOPE@SOURCE+SOURCE; the scopes are %s", scopeList())
		}
		group, err := url.PathUnescape(strings.TrimSpace(rule[:at]))
		if err != nil || group == "" {
			return nil, errors.New("each must be GROUP=SCOPE+SCOPE, with a group; in its name %2C is a comma and %25 is a %")
		}
		grant := Grant{Sources: AllSources()}
		scopes, sources, limited := strings.Cut(rule[at+1:], "@")
		if grant.Scopes, err = ParseScopes(strings.ReplaceAll(scopes, "+", ",")); err != nil {
			return nil, err
		}
		if limited {
			if grant.Sources, err = ParseSources(strings.Split(strings.TrimSpace(sources), "+")); err != nil {
				return nil, err
			}
		}
		if _, twice := all[group]; twice {
			return nil, fmt.Errorf("the group %q is there twice; give all its scopes in one rule", group)
		}
		all[group] = grant
	}
	return all, nil
}

// Of is what these groups give: the sources of all of them, and the scopes that they give at each of these sources. So a person
// never may do at one source what a group gives at another. Each scope is there once, in the order of their names. A group
// without a rule adds nothing.
func (g GroupScopes) Of(groups []string) Grant {
	var grants []Grant
	var all Grant
	for _, group := range groups {
		grant, known := g[group]
		if !known {
			continue
		}
		grants = append(grants, grant)
		all.Sources = append(all.Sources, grant.Sources...)
	}
	slices.Sort(all.Sources)
	all.Sources = slices.Compact(all.Sources)
	for i, source := range all.Sources { // * is there, too: a source that no rule names
		var here []Scope
		for _, grant := range grants {
			if grant.Sources.Has(source) {
				here = append(here, grant.Scopes...)
			}
		}
		if i == 0 {
			all.Scopes = here
			continue
		}
		all.Scopes = both(all.Scopes, here)
	}
	if all.Sources.All() {
		all.Sources = AllSources()
	}
	slices.Sort(all.Scopes)
	all.Scopes = slices.Compact(all.Scopes)
	return all
}

// both are the scopes that each of two lists allows.
func both(a, b []Scope) []Scope {
	return slices.DeleteFunc(slices.Concat(a, b), func(s Scope) bool { return !allows(a, s) || !allows(b, s) })
}

// Known are the given groups that a rule names.
func (g GroupScopes) Known(groups []string) []string {
	return slices.DeleteFunc(slices.Clone(groups), func(group string) bool { _, known := g[group]; return !known })
}
