package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/task"
)

// templatesView is a list of the templates of tasks.
type templatesView struct {
	Templates []templateRow
	// Count is how many there are in all; Namespace is the filter.
	Count     int
	Namespace string
	Views     []chip
	// More and First are addresses of other pages; empty for none.
	More, First string
}

// templateRow is a line of it.
type templateRow struct {
	ledger.Template
	// Steps is how many steps it has, Path its page.
	Steps int
	Path  string
}

// taskViews are the lists of tasks: all, nearly stale and stale ones, the archive and templates.
func taskViews(current string) []chip {
	views := []chip{{"All", "/tasks", false}, {"Nearly stale", "/tasks?near_stale=true", false}, {"Stale", "/tasks?flagged=true", false}, {"Archive", "/tasks/archive", false}, {"Templates", "/tasks/templates", false}}
	for i := range views {
		views[i].On = views[i].Path == current
	}
	return views
}

func showTemplates(v *visit) error {
	view := templatesView{Namespace: v.param("namespace"), Views: taskViews("/tasks/templates")}
	q := url.Values{}
	if view.Namespace != "" {
		q.Set("namespace", view.Namespace)
	}
	found, err := get[api.List[ledger.Template]](v, "/templates", q)
	if err != nil {
		return err
	}
	view.Count = len(found.Items)
	var page []ledger.Template
	page, view.More, view.First = slicePage(v, found.Items, listed, "from", "")
	for _, t := range page {
		view.Templates = append(view.Templates, templateRow{t, len(readTemplate(t).Steps), templatePath(t)})
	}
	v.frame.under(crumb{"Tasks", "/tasks"}, "Templates")
	v.frame.View = view
	return nil
}

func templatePath(t ledger.Template) string {
	return "/tasks/templates/" + url.PathEscape(t.Namespace) + "/" + url.PathEscape(t.Name) + "?" + url.Values{"version": {t.Version}}.Encode()
}

// readTemplate is what a template consists of. It was checked when it was applied, so a part that cannot be read is not there.
func readTemplate(t ledger.Template) (out task.Template) {
	_ = json.Unmarshal(t.Configuration, &out)
	return out
}

// templateView is one version of a template.
type templateView struct {
	ledger.Template
	// Steps are the steps of a task of it; Graph is their picture, empty without steps.
	Steps                 []templateStep
	StepCount             int
	MoreSteps, FirstSteps string
	Graph                 template.HTML
	// States are the states of a machine of its own; empty for the built-in one.
	States []task.State
	// Limits are the thresholds that it sets itself.
	Limits []pair
	// Whole is the template as it was applied; Cut says that it is only the beginning.
	Whole []piece
	Cut   bool
	// Tasks is the address of the tasks of this version.
	Tasks string
	// Versions are the other versions of it.
	Versions []templateRow
}

// templateStep is a line of a list of steps.
type templateStep struct {
	task.Step
	// Does is what does the work, Retries how often it is tried again.
	Does, Retries string
}

func showTemplate(v *visit) error {
	q := url.Values{}
	if version := v.param("version"); version != "" {
		q.Set("version", version)
	}
	namespace, name := v.PathValue("namespace"), v.PathValue("name")
	t, err := get[ledger.Template](v, "/templates/"+url.PathEscape(namespace)+"/"+url.PathEscape(name), q)
	if err != nil {
		return err
	}
	all, err := get[api.List[ledger.Template]](v, "/templates", url.Values{"namespace": {namespace}})
	if err != nil {
		return err
	}
	view := templateOf(t)
	view.Steps, view.MoreSteps, view.FirstSteps = slicePage(v, view.Steps, stepsShown, "from", "#steps")
	for _, other := range all.Items {
		if other.Name == t.Name && other.Version != t.Version {
			view.Versions = append(view.Versions, templateRow{Template: other, Path: templatePath(other)})
		}
	}
	v.frame.Title = clip(t.Name, 80)
	v.frame.Crumbs = []crumb{{"Now", "/"}, {"Tasks", "/tasks"}, {"Templates", "/tasks/templates"}, {Name: clip(t.Name, 80)}}
	v.frame.View = view
	return nil
}

// templateOf is a template as its page shows it.
func templateOf(t ledger.Template) *templateView {
	inside := readTemplate(t)
	view := &templateView{Template: t, StepCount: len(inside.Steps), States: inside.States, Cut: len(t.Configuration) > maxShown,
		Tasks: "/tasks?" + url.Values{"namespace": {t.Namespace}, "name": {t.Name}, "version": {t.Version}}.Encode()}
	steps := make([]ledger.Step, len(inside.Steps)) // without a status: nothing is done yet
	for i, s := range inside.Steps {
		steps[i] = ledger.Step{Name: s.Name, Dependencies: s.Dependencies}
		view.Steps = append(view.Steps, templateStep{s, handlerText(s.Handler), retriesText(s)})
	}
	view.Graph = stepGraph(t.Name, steps)
	view.Whole, _ = prettyJSON(t.Configuration[:min(len(t.Configuration), maxShown)])
	if l := inside.Lifecycle; l != nil {
		view.Limits = limitsOf(l)
	}
	return view
}

// handlerText is what does the work of a step, in a few words: a text, or the name in a mapping.
func handlerText(raw json.RawMessage) string {
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return name
	}
	var handler map[string]any
	if json.Unmarshal(raw, &handler) == nil {
		for _, key := range []string{"name", "callable", "class"} {
			if name, is := handler[key].(string); is {
				return name
			}
		}
	}
	return ""
}

// retriesText is how often a step is tried again, and with which pauses.
func retriesText(s task.Step) string {
	retries := "3" // the ledger's
	if s.MaxRetries != nil {
		retries = count(*s.MaxRetries)
	}
	if s.RetryBaseSeconds > 0 || s.RetryMaxSeconds > 0 {
		return fmt.Sprintf("%s, after %s to %s", retries, ageText(seconds(cmp.Or(s.RetryBaseSeconds, 1))), ageText(seconds(cmp.Or(s.RetryMaxSeconds, max(60, s.RetryBaseSeconds)))))
	}
	return retries
}

// limitsOf are the thresholds of a template in words. What it does not set is its namespace's, or the default.
func limitsOf(l *task.Lifecycle) []pair {
	var out []pair
	if l.MaxDurationMinutes != nil {
		out = append(out, pair{"a lifetime", some(*l.MaxDurationMinutes, "minute", "minutes")})
	}
	for _, state := range slices.Sorted(maps.Keys(l.MaxStateMinutes)) {
		out = append(out, pair{strings.ReplaceAll(state, "_", " "), some(l.MaxStateMinutes[state], "minute", "minutes")})
	}
	if l.StalenessAction != "" {
		out = append(out, pair{"what becomes of it", string(l.StalenessAction)})
	}
	return out
}
