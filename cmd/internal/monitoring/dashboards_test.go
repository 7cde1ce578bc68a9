package monitoring

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// panel is one of a dashboard; rows have panels of their own.
type panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	Datasource  struct{ Type, UID string }
	Targets     []struct{ Expr, LegendFormat, RefID string }
	Panels      []panel
	GridPos     struct{ H, W, X, Y int }
}

type dashboard struct {
	UID, Title string
	Panels     []panel
	Links      []struct{ URL string }
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(deploy("grafana", "dashboards", "*.json"))
	if err != nil || len(files) != 5 {
		t.Fatalf("%d dashboards, want 5: %v", len(files), err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal([]byte(readFile(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// query is one of a dashboard, as Prometheus gets it.
type query struct{ File, Panel, Expr, Legend string }

func (q query) String() string { return q.File + ", " + q.Panel }

func queries(t *testing.T) []query {
	t.Helper()
	var all []query
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, query{file, p.Title, concrete(target.Expr), target.LegendFormat})
			}
		}
	}
	slices.SortFunc(all, func(a, b query) int { return strings.Compare(a.String()+a.Expr, b.String()+b.Expr) })
	if len(all) < 40 {
		t.Fatalf("only %d queries", len(all))
	}
	return all
}

// concrete puts values in the place of Grafana's variables.
func concrete(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$job", ".+", "$__range", "1h").Replace(expr)
}

// named are the alerts that a description names in parentheses.
var named = regexp.MustCompile(`\(((?:[A-Z]\w+[a-z][A-Z]\w+(?:, )?)+)\)`)

var legendLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// Dashboards have what Grafana needs: titles and ids of their own, panels that do not lie over each other and say what they
// show, a way to the runbook, the provisioned data source, and legends with labels that their query keeps.
func TestDashboardsAreWhole(t *testing.T) {
	t.Parallel()
	uids, known := map[string]string{}, map[string]bool{}
	for _, a := range alerts(t) {
		known[a.Alert] = true
	}
	for file, d := range dashboards(t) {
		if !slices.ContainsFunc(d.Links, func(l struct{ URL string }) bool { return strings.HasSuffix(l.URL, "/docs/runbook.md") }) {
			t.Errorf("%s leads to no runbook", file)
		}
		if d.Title == "" || d.UID == "" || uids[d.UID] != "" {
			t.Errorf("%s: title %q, uid %q, which is that of %q", file, d.Title, d.UID, uids[d.UID])
		}
		uids[d.UID] = file
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || len(p.Panels) > 0 {
				t.Errorf("%s: the panel %q has the id %d of another, no title, or panels in it", file, p.Title, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if taken[[2]int{x, y}] != "" || x >= 24 {
						t.Errorf("%s: %q lies over %q", file, p.Title, taken[[2]int{x, y}])
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "prometheus" || p.GridPos.W == 0) {
				t.Errorf("%s: the panel %q has no query, no place, or the data source %q", file, p.Title, p.Datasource.UID)
			}
			if p.Type != "row" && p.Description == "" {
				t.Errorf("%s: the panel %q has no description", file, p.Title)
			}
			for _, alert := range named.FindAllStringSubmatch(p.Description, -1) {
				for name := range strings.SplitSeq(alert[1], ", ") {
					if !known[name] {
						t.Errorf("%s: the panel %q names %s, which is no alert", file, p.Title, name)
					}
				}
			}
			for _, target := range p.Targets {
				for _, l := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					whole := !grouping.MatchString(target.Expr) && slices.Contains(everywhere, l[1])
					if !whole && !strings.Contains(target.Expr, l[1]) {
						t.Errorf("%s, %s: the legend names %s, which the query does not keep", file, p.Title, l[1])
					}
				}
			}
		}
	}
}

var (
	extreme   = regexp.MustCompile(`\b(?:max|min)\s*(?:by\s*\(([^)]*)\))?\s*\(`)
	ofALabel  = regexp.MustCompile(`\bpostrider[_:][a-z0-9_:]+(\{[^}]*\})?`)
	chosenJob = `job=~"$job"`
)

// A dashboard shows the installations or services that are chosen, and none of them hides another: a greatest value is always
// that of one installation or one process.
func TestDashboardsTellInstallationsApart(t *testing.T) {
	t.Parallel()
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, e := range extreme.FindAllStringSubmatch(target.Expr, -1) {
					if labels := strings.Split(strings.ReplaceAll(e[1], " ", ""), ","); !slices.Contains(labels, "job") && !slices.Contains(labels, "instance") {
						t.Errorf("%s, %s: %q takes one of several installations: %s", file, p.Title, e[0], target.Expr)
					}
				}
				for _, s := range ofALabel.FindAllStringSubmatch(target.Expr, -1) {
					if !strings.Contains(s[1], chosenJob) {
						t.Errorf("%s, %s: %s is of all installations, whichever is chosen", file, p.Title, s[0])
					}
				}
			}
		}
	}
}

// The queries are ones that Prometheus understands.
func TestQueriesAreValid(t *testing.T) {
	t.Parallel()
	type record struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []record
	for i, q := range queries(t) {
		rules = append(rules, record{fmt.Sprintf("dashboard:query:%d", i), q.Expr})
	}
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, string(raw), "check", "rules", "/dev/stdin"); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
}

// What compose.yaml mounts is there, and Grafana finds its dashboards where it is told to look.
func TestComposeProvisionsDashboards(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct{ Volumes, Command []string }
	}
	if err := yaml.Unmarshal([]byte(readFile(t, deploy("..", "compose.yaml"))), &compose); err != nil {
		t.Fatal(err)
	}
	// A command takes the place of the image's own, which names these two.
	for _, want := range []string{"--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus", keepExemplars} {
		if command := compose.Services["prometheus"].Command; !slices.Contains(command, want) {
			t.Errorf("Prometheus is started with %q, without %s", command, want)
		}
	}
	mounted := map[string]string{}
	for _, name := range []string{"prometheus", "grafana"} {
		for _, v := range compose.Services[name].Volumes {
			from, to, _ := strings.Cut(strings.TrimSuffix(v, ":ro"), ":")
			if strings.HasPrefix(from, "./") {
				if entries, err := filepath.Glob(filepath.Join("..", "..", "..", from, "*")); err != nil || len(entries) == 0 {
					t.Errorf("%s mounts %s, which is not there", name, from)
				}
				mounted[to] = from
			}
		}
	}
	var sources struct {
		Datasources []struct{ UID, Type, URL string }
	}
	if err := yaml.Unmarshal([]byte(readFile(t, deploy("grafana", "provisioning", "datasources", "prometheus.yaml"))), &sources); err != nil {
		t.Fatal(err)
	}
	if len(sources.Datasources) != 1 || sources.Datasources[0].UID != "prometheus" || sources.Datasources[0].URL != "http://prometheus:9090" {
		t.Errorf("data sources %+v", sources)
	}
	var providers struct {
		Providers []struct{ Options struct{ Path string } }
	}
	if err := yaml.Unmarshal([]byte(readFile(t, deploy("grafana", "provisioning", "dashboards", "postrider.yaml"))), &providers); err != nil {
		t.Fatal(err)
	}
	if len(providers.Providers) != 1 || mounted[providers.Providers[0].Options.Path] != "./deploy/grafana/dashboards" {
		t.Errorf("dashboards are looked for in %+v; mounted is %v", providers, mounted)
	}
}
