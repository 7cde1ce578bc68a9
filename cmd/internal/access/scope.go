package access

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is one right of a key.
type Scope string

const (
	// Read shows investigations, tasks and the outbox: of messages what the rules of redaction leave, which without rules
	// for payloads is all of them, and to agents (postrider mcp) nothing of what they carried.
	Read Scope = "read"
	// ReadPayload shows keys, payloads and headers, and what tasks carry, as they are, unredacted, and to agents what
	// redaction leaves. Each look is audited.
	ReadPayload Scope = "read:payload"
	// Resolve closes investigations, and treats tasks and their steps.
	Resolve Scope = "resolve"
	// Redrive sends dead letters' messages again.
	Redrive Scope = "redrive"
	// Edit changes a message before it is sent again; only together with Redrive.
	Edit Scope = "redrive:edit"
	// Purge removes investigations and delivered events.
	Purge Scope = "purge"
	// Admin may do everything, keys included.
	Admin Scope = "admin"
)

// Scopes returns every scope, in the order in which people read them.
func Scopes() []Scope { return []Scope{Read, ReadPayload, Resolve, Redrive, Edit, Purge, Admin} }

// ParseScopes reads scopes separated by commas. The result is sorted and has none twice.
func ParseScopes(s string) ([]Scope, error) {
	var out []Scope
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		if !slices.Contains(Scopes(), Scope(word)) {
			return nil, fmt.Errorf("scope %q is not known; the scopes are %s", word, scopeList())
		}
		out = append(out, Scope(word))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func scopeList() string {
	var words []string
	for _, s := range Scopes() {
		words = append(words, string(s))
	}
	return strings.Join(words, ", ")
}

// allows reports whether a key with these scopes may do what wants one of them.
func allows(has []Scope, wanted Scope) bool {
	return slices.Contains(has, wanted) || slices.Contains(has, Admin)
}
