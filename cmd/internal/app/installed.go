package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
)

// needs says which part of the schema a role works with.
func needs(role Role, c config.Config) migrations.Part {
	switch role {
	case Collector, Operator:
		return migrations.PartDesk
	case HTTP:
		if c.HTTP.API {
			return migrations.PartDesk
		}
	case Detector, Archiver:
		return migrations.PartTasks
	}
	return migrations.PartOutbox
}

// checkParts refuses roles that work with a part of the schema that the database was installed without.
func checkParts(have []migrations.Part, roles []Role, c config.Config) error {
	var can []Role
	var lacks []string
	for _, role := range roles {
		if part := needs(role, c); slices.Contains(have, part) {
			can = append(can, role)
		} else {
			lacks = append(lacks, fmt.Sprintf("%s needs %s", role, part))
		}
	}
	if len(lacks) == 0 {
		return nil
	}
	remedy := "start this process on another database"
	if len(can) > 0 {
		remedy = "start it with --roles " + strings.ReplaceAll(joinRoles(can), " ", "")
	}
	if slices.Contains(roles, HTTP) && !slices.Contains(can, HTTP) {
		remedy += "; the role http can serve health and metrics here, with http.api set to false"
	}
	return fmt.Errorf("the database was installed with %s alone, and some roles need more: %s; %s. What needs the desk runs on the desk's database",
		migrations.JoinParts(have), strings.Join(lacks, ", "), remedy)
}

// checkNoDesk refuses roles that work with the database of database.url, where that is not set.
func checkNoDesk(roles []Role, c config.Config) error {
	for _, role := range roles {
		if role != Relay && needs(role, c) != migrations.PartOutbox || role == HTTP && c.HTTP.API {
			return fmt.Errorf("database.url is not set, so this process has no desk, and the role %s needs one: set database.url, or start it with --roles relay,http and http.api set to false", role)
		}
	}
	return nil
}

// installed reports whether the database has a part of the schema.
func (a *App) installed(part migrations.Part) bool { return slices.Contains(a.schema, part) }
