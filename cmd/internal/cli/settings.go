package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/postrider/postrider/cmd/internal/config"
)

// text is the value of a flag as it was given: the configuration parses all sources alike.
type text struct{ value, kind string }

func (t *text) String() string         { return t.value }
func (t *text) Set(value string) error { t.value = value; return nil }
func (t *text) Type() string           { return t.kind }

// settings are the flags that give a configuration.
type settings struct {
	file  string
	flags []*pflag.Flag
	keys  []string // keys[i] is the key of flags[i]
}

// everywhere are the keys that every command has a flag for.
var everywhere = []string{"database.url", "kafka.brokers"}

// bindCommon adds the flags of every command.
func (s *settings) bindCommon(to *pflag.FlagSet) {
	to.StringVar(&s.file, "config", "", "YAML `file` with settings")
	for _, k := range config.Keys() {
		if slices.Contains(everywhere, k.String()) {
			s.bind(to, k, "")
		}
	}
}

// bindAll adds a flag for every other key. defaults are the defaults that differ in this command.
func (s *settings) bindAll(to *pflag.FlagSet, defaults map[string]string) {
	for _, k := range config.Keys() {
		if slices.Contains(everywhere, k.String()) {
			continue
		}
		standard := k.Default
		if other, differs := defaults[k.String()]; differs {
			standard = other
		}
		s.bind(to, k, standard)
	}
}

// bindShowing is bindAll for a command that is about some sections only: the help is silent about the flags of the
// others, which configure what the command does not do.
func (s *settings) bindShowing(to *pflag.FlagSet, sections ...string) {
	before := len(s.flags)
	s.bindAll(to, nil)
	for i, f := range s.flags[before:] {
		section, _, _ := strings.Cut(s.keys[before+i], ".")
		f.Hidden = !slices.Contains(sections, section)
	}
}

func (s *settings) bind(to *pflag.FlagSet, k config.Key, standard string) {
	help := k.Help + " (" + k.Env()
	if standard != "" {
		help += ", default " + standard
	}
	f := to.VarPF(&text{kind: k.Kind()}, k.Flag(), "", help+")")
	if k.Kind() == "bool" {
		f.NoOptDefVal = "true" // --outbox-log alone
	}
	s.flags, s.keys = append(s.flags, f), append(s.keys, k.String())
}

// shortNames are other names of flags, for flags that people type.
func shortNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "http":
		name = "http-address"
	case "allow-writes":
		name = "mcp-allow-writes"
	}
	return pflag.NormalizedName(name)
}

// inWords are the defaults of commands that end by themselves: a person waits and reads what they log. With outbox.log they
// write JSON, for programs.
var inWords = map[string]string{"log.format": "words"}

// load reads the configuration. defaults replace the defaults of some keys, required must be set.
func (c *commands) load(defaults map[string]string, required ...string) (config.Config, error) {
	given := map[string]string{}
	for i, f := range c.settings.flags {
		if f.Changed {
			given[c.settings.keys[i]] = f.Value.String()
		}
	}
	cfg, err := config.Load(config.From{File: c.settings.file, Environ: c.environ, Flags: given, Defaults: defaults})
	if err == nil {
		err = cfg.Require(required...)
	}
	if cfg.Outbox.Log && cfg.Log.Format == "words" {
		cfg.Log.Format = "json"
	}
	if err != nil {
		return cfg, &usageError{err}
	}
	return cfg, nil
}

// given reports whether the command line has a flag for a key.
func (s *settings) given(key string) bool {
	for i, f := range s.flags {
		if s.keys[i] == key && f.Changed {
			return true
		}
	}
	return false
}
