package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Sources says where settings come from.
type Sources struct {
	// File is the path of the YAML file; empty for none.
	File string
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Flags are the values given on the command line, by key ("outbox.batch_size").
	Flags map[string]string
	// Defaults replace the defaults of some keys, by key.
	Defaults map[string]string
}

// found is a value met in a source, with its origin for messages.
type found struct {
	key    Key
	text   string
	origin string
}

func foundValue(k Key, text, origin string) found { return found{key: k, text: text, origin: origin} }

// Load reads the settings. The error joins every mistake found, in all sources, one a line.
func Load(s Sources) (Config, error) {
	var values []found
	var problems []error
	for _, k := range keys() {
		if k.Default != "" {
			values = append(values, foundValue(k, k.Default, "default"))
		}
		if text, replaced := s.Defaults[k.String()]; replaced {
			values = append(values, foundValue(k, text, "default"))
		}
	}
	c := Config{origins: map[string]string{}}
	wrong := map[string]bool{}
	if s.File != "" {
		f := file(s.File)
		values, problems, c.Topics = append(values, f.found...), append(problems, f.problems...), f.rules
		maps.Copy(wrong, f.wrong)
	}
	v, p := environment(s.Environ)
	values, problems = append(values, v...), append(problems, p...)
	for _, k := range keys() {
		if text, given := s.Flags[k.String()]; given {
			values = append(values, foundValue(k, text, "flag --"+k.Flag()))
		}
	}

	for _, f := range values { // the later source wins, but a wrong value is wrong in each
		if err := f.key.set(&c, f.text); err != nil {
			problems = append(problems, fmt.Errorf("%s from %s%s: %w", f.key, f.origin, f.quoted(), err))
			wrong[f.key.String()] = true
		}
		c.origins[f.key.String()] = f.origin
	}
	problems = append(problems, c.validate(wrong)...)
	if len(problems) > 0 {
		return Config{}, errors.Join(problems...)
	}
	return c, nil
}

// quoted shows the value, unless it is secret or looks as if it had a password in it.
func (f found) quoted() string {
	if f.key.Secret() || strings.Contains(f.text, "@") {
		return ""
	}
	text := f.text
	if r := []rune(text); len(r) > 100 {
		text = string(r[:100]) + "…"
	}
	return " is " + strconv.Quote(text)
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
