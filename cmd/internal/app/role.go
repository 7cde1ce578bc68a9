package app

import (
	"fmt"
	"slices"
	"strings"
)

// Role is a part of Postrider that a process may run.
type Role string

const (
	// Relay carries outbox events to Kafka.
	Relay Role = "relay"
	// Collector turns dead letters into investigations.
	Collector Role = "collector"
	// Detector finds stale tasks and does with them what their templates say.
	Detector Role = "detector"
	// Archiver moves tasks that ended long ago to the archive, and renews the figures of dashboards.
	Archiver Role = "archiver"
	// Operator treats operations on investigations, and follows messages that were sent again.
	Operator Role = "operator"
	// HTTP serves health, metrics and the API.
	HTTP Role = "http"
)

// Roles returns every role.
func Roles() []Role { return []Role{Relay, Collector, Detector, Archiver, Operator, HTTP} }

// ParseRoles reads role names separated by commas.
func ParseRoles(text string) ([]Role, error) {
	var roles []Role
	for name := range strings.SplitSeq(text, ",") {
		role := Role(strings.TrimSpace(name))
		switch {
		case !slices.Contains(Roles(), role):
			return nil, fmt.Errorf("%q is not a role; the roles are %s", role, joinRoles(Roles()))
		case slices.Contains(roles, role):
			return nil, fmt.Errorf("the role %s is given twice", role)
		}
		roles = append(roles, role)
	}
	return roles, nil
}

func joinRoles(roles []Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}
