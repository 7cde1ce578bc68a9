package access

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// GroupScopes are what people may do by the groups that they are in.
type GroupScopes map[string][]Scope

// ParseGroupScopes reads rules such as sre=read+resolve. A rule is cut at its last =, because names of groups may have one;
// in the name %2C is a comma and %25 is a %.
func ParseGroupScopes(rules []string) (GroupScopes, error) {
	all := GroupScopes{}
	for _, rule := range rules {
		at := strings.LastIndexByte(rule, '=')
		if at < 0 {
			return nil, fmt.Errorf("each must be GROUP=SCOPE+SCOPE; the scopes are %s", scopeList())
		}
		group, err := url.PathUnescape(strings.TrimSpace(rule[:at]))
		if err != nil || group == "" {
			return nil, errors.New("each must be GROUP=SCOPE+SCOPE, with a group; in its name %2C is a comma and %25 is a %")
		}
		scopes, err := ParseScopes(strings.ReplaceAll(rule[at+1:], "+", ","))
		if err != nil {
			return nil, err
		}
		if all[group] != nil {
			return nil, fmt.Errorf("the group %q is there twice; give all its scopes in one rule", group)
		}
		all[group] = scopes
	}
	return all, nil
}

// Of are the scopes that these groups give: each once, in the order of their names. A group without a rule adds none.
func (g GroupScopes) Of(groups []string) []Scope {
	var scopes []Scope
	for _, group := range groups {
		scopes = append(scopes, g[group]...)
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// Known are the given groups that a rule names.
func (g GroupScopes) Known(groups []string) []string {
	return slices.DeleteFunc(slices.Clone(groups), func(group string) bool { return g[group] == nil })
}
