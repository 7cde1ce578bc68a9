package config

import (
	"fmt"
	"regexp"
	"strings"
)

// ownPrefixes begin names that are ours alone, so an unknown one is a mistake. DATABASE_, KAFKA_,
// HTTP_, LOG_, TRACING_, TASKS_ and ARCHIVE_ belong to everybody.
var ownPrefixes = []string{"OUTBOX_", "DLQ_", "STALENESS_", "POSTRIDER_", aliasPrefix + "OUTBOX_"}

// notSettings are variables of ours that something else reads: the tests, and the search for
// PostgreSQL's programs.
var notSettings = regexp.MustCompile(`^POSTRIDER_(TEST_.*|POSTGRES_BIN)$`)

// serviceLink matches what Kubernetes and Docker put into the environment of a container for a service whose name happens
// to be ours, for example POSTRIDER_PORT_8080_TCP_ADDR.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// environment finds the values in a list of NAME=value. An empty value is an unset one, which is
// what `${NAME:-}` in a compose file means.
func environment(environ []string) (found []found, problems []error) {
	values := map[string]string{}
	var names []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.TrimSpace(value) == "" {
			continue
		}
		if _, twice := values[name]; !twice {
			names = append(names, name)
		}
		values[name] = value
	}
	known := map[string]bool{}
	var candidates []string
	for _, k := range keys() {
		var first string
		for _, name := range k.envNames() {
			known[name] = true
			candidates = append(candidates, name)
			value, given := values[name]
			switch {
			case !given:
			case first == "":
				first = name
				found = append(found, foundValue(k, value, "environment variable "+name))
			case strings.TrimSpace(value) != strings.TrimSpace(values[first]):
				problems = append(problems, fmt.Errorf("%s: the environment variables %s and %s are set to different values; unset one", k, first, name))
			}
		}
	}
	for _, name := range names {
		if known[name] || !ours(name) {
			continue
		}
		if key, why := removedVariable(name); key != "" {
			problems = append(problems, fmt.Errorf("the environment variable %s sets %s, which is no setting any more: %s", name, key, why))
			continue
		}
		problems = append(problems, fmt.Errorf("unknown environment variable %s; the nearest setting is %s", name, Nearest(name, candidates)))
	}
	return found, problems
}

func ours(name string) bool {
	if notSettings.MatchString(name) || serviceLink.MatchString(name) {
		return false
	}
	for _, prefix := range ownPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
