package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/kafkaauth"
	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/message"
)

func (c *commands) config() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Look at the settings and check them, without connecting to anything",
		Args:  cobra.ArbitraryArgs,
		RunE:  c.group,
	}
	cmd.AddCommand(c.configShow(), c.configValidate())
	return cmd
}

// settingView is the JSON of a setting.
type settingView struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin string `json:"origin"`
}

func viewSettings(settings []config.Setting) []settingView {
	views := make([]settingView, len(settings))
	for i, s := range settings {
		views[i] = settingView{s.Name, s.Value, s.Origin}
	}
	return views
}

// ruleView is the JSON of a rule for topics.
type ruleView struct {
	Match    string        `json:"match"`
	Origin   string        `json:"origin"`
	Settings []settingView `json:"settings"`
}

func viewRules(rules []config.TopicRule) []ruleView {
	views := make([]ruleView, len(rules))
	for i, r := range rules {
		views[i] = ruleView{r.Match(), r.Origin(), viewSettings(r.Settings())}
	}
	return views
}

// configView is the JSON of config show.
type configView struct {
	Settings []settingView `json:"settings"`
	Topics   []ruleView    `json:"topics"`
	Sources  []sourceView  `json:"sources,omitempty"`
}

// sourceView is the JSON of a source.
type sourceView struct {
	Name     string   `json:"name"`
	Database string   `json:"database"`
	Allow    []string `json:"allow"`
	Origin   string   `json:"origin"`
}

func viewSources(sources []config.Source) []sourceView {
	views := make([]sourceView, len(sources))
	for i, s := range sources {
		views[i] = sourceView{s.Name, s.Database.URL.String(), s.Allow, s.Origin()}
	}
	return views
}

// topicConfigView is the JSON of config show --topic.
type topicConfigView struct {
	Topic    string        `json:"topic"`
	Settings []settingView `json:"settings"`
	Rules    []ruleView    `json:"rules"`
}

func (c *commands) configShow() *cobra.Command {
	var out output
	var topic string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every setting with its value and where it came from",
		Long: `Shows the settings as postrider serve would have them from the same flags, environment and file, and
for each where its value came from: the default, FILE:LINE, the environment variable or the flag.
Passwords are masked.

With --topic, shows what counts for the events of one topic. Rules of the file's section topics apply
from top to bottom: each that matches the topic changes only what it names, and a later one wins. What
no rule names comes from the sections outbox, dlq and kafka.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			if cmd.Flags().Changed("topic") {
				if err := message.ValidTopic(topic); err != nil {
					return usagef("--topic: %w", err)
				}
			}
			cfg, err := c.load(nil)
			if err != nil {
				return err
			}
			if topic != "" {
				settings, rules := cfg.ExplainTopic(topic), cfg.RulesFor(topic)
				view := topicConfigView{topic, viewSettings(settings), viewRules(rules)}
				return out.print(c.stdout, view, func(w io.Writer) error { return topicConfigTable(w, settings, rules) })
			}
			settings := cfg.Settings()
			view := configView{viewSettings(settings), viewRules(cfg.Topics), viewSources(cfg.Sources)}
			return out.print(c.stdout, view, func(w io.Writer) error { return configTable(w, settings, cfg.Topics, view.Sources) })
		},
	}
	cmd.Flags().StringVar(&topic, "topic", "", "show what counts for the events of this `topic`")
	out.bind(cmd)
	c.settings.bindAll(cmd.Flags(), nil)
	return cmd
}

func configTable(w io.Writer, settings []config.Setting, rules []config.TopicRule, sources []sourceView) error {
	if err := settingTable(w, settings); err != nil {
		return err
	}
	if len(sources) > 0 {
		fmt.Fprintln(w, "\nSources beside that of database.url; postrider sources looks at them:")
		rows := make([][]string, len(sources))
		for i, s := range sources {
			rows[i] = []string{s.Name, s.Database, strings.Join(s.Allow, ","), s.Origin}
		}
		if err := wideGrid(w, []string{"SOURCE", "DATABASE", "TOPICS", "FROM"}, rows); err != nil {
			return err
		}
	}
	if len(rules) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nRules for topics, applied from top to bottom; postrider config show --topic NAME has the result:")
	for _, r := range rules {
		fmt.Fprintf(w, "\n%s (%s)\n", visible(r.Match()), visible(r.Origin()))
		if err := settingTable(w, r.Settings()); err != nil {
			return err
		}
	}
	return nil
}

func topicConfigTable(w io.Writer, settings []config.Setting, rules []config.TopicRule) error {
	if err := settingTable(w, settings); err != nil {
		return err
	}
	if len(rules) == 0 {
		_, err := fmt.Fprintln(w, "\nNo rule of the section topics matches it.")
		return err
	}
	fmt.Fprintln(w, "\nThe rules that match it, in the order in which they apply:")
	for _, r := range rules {
		fmt.Fprintf(w, "  %s (%s)\n", visible(r.Match()), visible(r.Origin()))
	}
	return nil
}

func settingTable(w io.Writer, settings []config.Setting) error {
	rows := make([][]string, len(settings))
	for i, s := range settings {
		rows[i] = []string{s.Name, s.Text, s.Origin}
	}
	return wideGrid(w, []string{"SETTING", "VALUE", "FROM"}, rows)
}

// validateView is the JSON of config validate.
type validateView struct {
	OK          bool     `json:"ok"`
	Mistakes    []string `json:"mistakes"`
	Warnings    []string `json:"warnings"`
	Connections int      `json:"database_connections,omitempty"`
	// SourceConnections are the connections to the databases of Sources together.
	SourceConnections int `json:"source_connections,omitempty"`
	Sources           int `json:"sources,omitempty"`
}

func (c *commands) configValidate() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the settings and list all mistakes",
		Long: `Checks everything that can be checked without a connection: the file, the environment and the flags, each by itself
and together, and the files with certificates, keys and passwords that they name. It lists all mistakes at once and
exits with 2 if there are any. Warnings are about settings that are allowed and probably not meant; with
warnings alone it exits with 0.`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if err := out.check(); err != nil {
				return err
			}
			cfg, mistakes := c.load(nil)
			if mistakes == nil {
				mistakes = checkFiles(cfg)
			}
			view := validateView{OK: mistakes == nil, Mistakes: []string{}, Warnings: []string{}}
			if mistakes != nil {
				if out.format != "json" {
					return mistakes
				}
				view.Mistakes = strings.Split(mistakes.Error(), "\n")
			} else {
				view.Warnings = append(view.Warnings, cfg.Warnings()...)
				if cfg.Database.URL != "" || !cfg.HasSources() {
					view.Connections = app.Connections(cfg)
				}
				view.Sources = len(cfg.Sources)
				for _, s := range cfg.Sources {
					view.SourceConnections += s.Connections
				}
			}
			if err := out.print(c.stdout, view, func(w io.Writer) error { return validateTable(w, view) }); err != nil {
				return err
			}
			return mistakes
		},
	}
	out.bind(cmd)
	c.settings.bindAll(cmd.Flags(), nil)
	return cmd
}

// checkFiles reads the files that settings name, as a process would at its start.
func checkFiles(cfg config.Config) error {
	_, ofKafka := kafkaauth.Options(cfg.Kafka, kafkaauth.DialTimeout)
	_, ofDatabase := cfg.Database.Password()
	var ofTracing error
	if cfg.Tracing.Enabled {
		_, ofTracing = cfg.Tracing.HeaderMap()
	}
	_, ofConsole := cfg.Console.ClientSecret()
	problems := []error{ofDatabase, ofKafka, ofTracing, ofConsole}
	for _, s := range cfg.Sources {
		if _, err := s.Database.Password(); err != nil {
			problems = append(problems, fmt.Errorf("%s: the source %s: %w", s.Origin(), s.Name, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return &usageError{err}
	}
	return nil
}

func validateTable(w io.Writer, v validateView) error {
	for _, warning := range v.Warnings {
		fmt.Fprintf(w, "Warning: %s\n", visible(warning))
	}
	text := "The settings are right."
	if v.Connections > 0 {
		text += fmt.Sprintf(" A process with all roles opens up to %d database connections.", v.Connections)
	}
	if v.Sources > 0 {
		text += fmt.Sprintf(" One that carries %s opens up to %d to their databases.", plural.Of(v.Sources, "source", "sources"), v.SourceConnections)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
