package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// From says where settings come from.
type From struct {
	// File is the path of the YAML file; empty for none.
	File string
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Flags are the values given on the command line, by key ("outbox.batch_size").
	Flags map[string]string
	// Defaults replace the defaults of some keys, by key.
	Defaults map[string]string
}

// found is a value met in one of these places, with its origin for messages.
type found struct {
	key    Key
	text   string
	origin origin
}

// origin is where a value came from.
type origin struct {
	text string // for messages
	// beside says that it was given beside the settings file: as a flag or in the environment.
	beside bool
}

func (o origin) String() string { return o.text }

func foundValue(k Key, text, where string) found {
	return found{key: k, text: text, origin: origin{text: where}}
}

// foundBeside is foundValue for a flag, and for the environment.
func foundBeside(k Key, text, where string) found {
	return found{key: k, text: text, origin: origin{text: where, beside: true}}
}

// Load reads the settings. The error joins every mistake found, in all places, one a line.
func Load(from From) (Config, error) {
	var values []found
	var problems []error
	for _, k := range keys() {
		if k.Default != "" {
			values = append(values, foundValue(k, k.Default, "default"))
		}
		if text, replaced := from.Defaults[k.String()]; replaced {
			values = append(values, foundValue(k, text, "default"))
		}
	}
	c := Config{origins: map[string]origin{}}
	wrong := map[string]bool{}
	if from.File != "" {
		f := file(from.File)
		values, problems, c.Topics = append(values, f.found...), append(problems, f.problems...), f.rules
		c.Sources, c.SourcesDir = f.carried, f.folder
		maps.Copy(wrong, f.wrong)
	}
	v, p := environment(from.Environ)
	values, problems = append(values, v...), append(problems, p...)
	for _, k := range keys() {
		if text, given := from.Flags[k.String()]; given {
			values = append(values, foundBeside(k, text, "flag --"+k.Flag()))
		}
	}

	for _, f := range values { // the later source wins, but a wrong value is wrong in each
		if err := f.key.set(&c, f.text); err != nil {
			problems = append(problems, fmt.Errorf("%s from %s%s: %w", f.key, f.origin, f.quoted(), err))
			wrong[f.key.String()] = true
		}
		c.origins[f.key.String()] = f.origin
	}
	c.passwordOfPerson()
	problems = append(problems, c.validate(wrong)...)
	if len(problems) > 0 {
		return Config{}, errors.Join(problems...)
	}
	return c, nil
}

// passwordOfPerson leaves out the password file of the settings file where a flag or the environment gives a connection string with a
// password: people use the settings of serve with a login of their own.
func (c *Config) passwordOfPerson() {
	const address, file = "database.url", "database.password_file"
	if c.Database.PasswordFile != "" && c.origins[address].beside && !c.origins[file].beside && c.Database.URL.hasPassword() {
		c.Database.PasswordFile, c.origins[file] = "", origin{text: fmt.Sprintf("left out: %s has a password", c.origins[address])}
	}
}

// quoted shows the value, unless it is secret or looks as if it had a password in it.
func (f found) quoted() string {
	if text := shownText(f.text); text != "" && !f.key.Secret() {
		return " is " + text
	}
	return ""
}

// shownText is a text in quotes and not too long; empty where it looks as if it had a password in it.
func shownText(text string) string {
	if strings.Contains(text, "@") {
		return ""
	}
	if r := []rune(text); len(r) > 100 {
		text = string(r[:100]) + "…"
	}
	return strconv.Quote(text)
}

// Require returns an error that says how to set the first of the keys that is not set.
func (c Config) Require(names ...string) error {
	for _, name := range names {
		i := slices.IndexFunc(keys(), func(k Key) bool { return k.String() == name })
		if k := keys()[i]; k.text(c) == "" {
			return fmt.Errorf("%s is not set: give --%s, the environment variable %s, or %s: in the section %s of the configuration file",
				k, k.Flag(), k.Env(), k.Name, k.Section)
		}
	}
	return nil
}

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
				found = append(found, foundBeside(k, value, "environment variable "+name))
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

// removed are settings that there were, and why there are none any more.
var removed = map[string]string{
	"outbox.workers": "one relay leads the outbox and the others stand by; how many batches are at the brokers at once says outbox.dispatches",
}

// removedVariable returns the setting that an environment variable set, and why it is none any more; "" for others.
func removedVariable(name string) (key, why string) {
	for key, why := range removed {
		if strings.TrimPrefix(name, aliasPrefix) == strings.ToUpper(strings.ReplaceAll(key, ".", "_")) {
			return key, why
		}
	}
	return "", ""
}
