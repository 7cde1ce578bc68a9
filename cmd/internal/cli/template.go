package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/postgres"
	"github.com/postrider/postrider/internal/tasks/task"
)

func (c *commands) template() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Say what tasks look like: steps, thresholds, states",
		Long: `A template says what tasks of one kind look like: their steps, when they are stale, what their input must fit,
and, where the built-in states do not do, their states. It is a YAML or JSON file; template example prints
one with every key explained.`,
		Args: cobra.ArbitraryArgs,
		RunE: c.group,
	}
	cmd.AddCommand(c.templateApply(), c.templateList(), c.templateShow(), c.templateValidate(), c.templateNamespace(), c.templateExample())
	return cmd
}

func (c *commands) templateExample() *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "Print a template with every key explained",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			text, err := task.Example()
			if err != nil {
				return err
			}
			_, err = c.stdout.Write(text)
			return err
		},
	}
}

func (c *commands) templateList() *cobra.Command {
	var out output
	var namespace string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the templates in the database, the highest version first",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				all, err := postgres.On(pool).Templates(cmd.Context(), namespace)
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.All(api.TemplateOf, all), func(w io.Writer) error { return templateTable(w, all) })
			})
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", "", "only templates of this `namespace`")
	out.bind(cmd)
	return cmd
}

func templateTable(w io.Writer, all []ledger.Template) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "No template fits; postrider template apply --shipped puts in the templates that come with Postrider.")
		return err
	}
	rows := make([][]string, len(all))
	for i, t := range all {
		// A template that was written past the checks is listed as far as it can be read.
		var configured struct {
			Steps     []json.RawMessage `json:"steps"`
			Lifecycle *task.Lifecycle   `json:"lifecycle"`
		}
		_ = json.Unmarshal(t.Configuration, &configured)
		limits := ""
		if configured.Lifecycle != nil {
			limits = configured.Lifecycle.String()
		}
		machine := "own"
		if t.Machine == task.BuiltinName {
			machine = "built-in"
		}
		rows[i] = []string{t.Namespace, t.Name, t.Version, machine, strconv.Itoa(len(configured.Steps)), moment(t.UpdatedAt), limits}
	}
	return grid(w, []string{"NAMESPACE", "NAME", "VERSION", "STATES", "STEPS", "UPDATED", "LIFECYCLE"}, rows)
}

func (c *commands) templateShow() *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "show [NAMESPACE/]NAME[@VERSION]",
		Short: "Show a template: its steps, its states, and when tasks of it are stale",
		Long: `Show a template: its steps, its states, and when tasks of it are stale. Without a version it is the highest.
-o json prints it whole.`,
		Args: exactly("[NAMESPACE/]NAME[@VERSION]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			name, version, _ := strings.Cut(args[0], "@")
			namespace, plain, inside := strings.Cut(name, "/")
			if !inside {
				namespace, plain = "", name
			}
			return c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
				l := postgres.On(pool)
				t, err := l.Template(cmd.Context(), namespace, plain, version)
				if errors.Is(err, ledger.ErrNotFound) {
					return fmt.Errorf("%w; postrider template list shows what there is", err)
				}
				if err != nil {
					return err
				}
				m, err := l.StoredMachine(cmd.Context(), t.Machine)
				if err != nil {
					return err
				}
				spaces, err := l.Namespaces(cmd.Context(), t.Namespace)
				if err != nil {
					return err
				}
				return out.print(c.stdout, api.TemplateOf(t), func(w io.Writer) error { return showTemplate(w, t, m, spaces) })
			})
		},
	}
	out.bind(cmd)
	return cmd
}

// showTemplate prints a template for people.
func showTemplate(w io.Writer, stored ledger.Template, m *task.Machine, spaces []ledger.Namespace) error {
	t, err := task.Parse("configuration", stored.Configuration)
	if err == nil {
		m, _ = t.Machine() // the same, in the order in which it was written
	} else { // it came past the checks
		t = &task.Template{Namespace: stored.Namespace, Name: stored.Name, Version: stored.Version}
		fmt.Fprintf(w, "It is not valid, and is shown only in part:\n%s\n\n", visibleLines(err.Error()))
	}
	var namespace *task.Lifecycle
	for _, s := range spaces {
		if l, err := task.ParseLifecycle("namespace", s.Lifecycle); err == nil {
			namespace = l
		}
	}
	retries := ""
	if t.MaxRetries > 0 {
		retries = strconv.Itoa(t.MaxRetries)
	}
	start, topic := "", ""
	if t.StartEvent != nil {
		start = strings.TrimSpace(t.StartEvent.Type + " to " + t.StartEvent.Topic)
	}
	if t.Events != nil {
		topic = t.Events.Topic
	}
	var environments []string
	for name := range t.Environments {
		environments = append(environments, name)
	}
	slices.Sort(environments)
	timeout := task.OnTimeout(t.Lifecycle, namespace)
	if err := fields(w,
		[2]string{"Template", t.String()},
		[2]string{"Description", value(stored.Description)},
		[2]string{"Applied", moment(stored.UpdatedAt)},
		[2]string{"Environments", strings.Join(environments, ", ")},
		[2]string{"Lifecycle events", topic},
		[2]string{"Start event", start},
		[2]string{"Tries of an event", retries},
		[2]string{"Age at most", limit(task.LifetimeThreshold(t.Lifecycle, namespace, task.Defaults{}))},
		[2]string{"A stale task", timeoutText(timeout, m)},
	); err != nil {
		return err
	}
	if len(t.Steps) > 0 {
		fmt.Fprintln(w, "\nSteps:")
		rows := make([][]string, len(t.Steps))
		for i, s := range t.Steps {
			retries := ""
			if s.MaxRetries != nil {
				retries = strconv.Itoa(*s.MaxRetries)
			}
			rows[i] = []string{s.Name, strings.Trim(string(s.Handler), `"`), strings.Join(s.Dependencies, ", "), retries}
		}
		if err := grid(w, []string{"STEP", "HANDLER", "AFTER", "RETRIES"}, rows); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "\nStates:")
	rows := make([][]string, len(m.States))
	for i, s := range m.States {
		at := ""
		if s.Kind.Live() {
			at = limit(task.StateThreshold(t.Lifecycle, namespace, task.Defaults{}, s.Name))
		}
		rows[i] = []string{s.Name, string(s.Kind), at, strings.Join(m.Next(s.Name), ", ")}
	}
	return wideGrid(w, []string{"STATE", "KIND", "AT MOST", "THEN"}, rows)
}

// limit renders a threshold; that of the settings is only known where the detector runs.
func limit(t task.Threshold) string {
	if t.Source == task.SourceDefault {
		return "the default"
	}
	return fmt.Sprintf("%d min (%s)", t.Minutes, t.Source)
}

// timeoutText says what a template wants done with a stale task.
func timeoutText(t task.Timeout, m *task.Machine) string {
	what := "stays where it is"
	if t.Fail && m.Roles.Failed != "" {
		what = "goes to " + m.Roles.Failed
	}
	if t.Letter {
		return what + ", and an investigation is opened"
	}
	return what + ", and no investigation is opened"
}
