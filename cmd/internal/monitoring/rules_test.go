package monitoring

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestRulesAreValid(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", deploy("prometheus", "postrider.rules.yml")},
		{"check", "config", deploy("prometheus", "prometheus.yml")},
		append([]string{"test", "rules"}, ruleTests(t)...),
	} {
		if out, err := promtool(t, "", args...); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// ruleTests are the files with tests of the rules.
func ruleTests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(deploy("prometheus", "postrider.rules*.test.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of tests, %v", len(files), err)
	}
	return files
}

// Each alert has a test in which it fires and one in which it is quiet, and neither passes for the wrong reason:
// with its expression made false the first fails, with one that is always true the second.
func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	firing, quiet := map[string]int{}, map[string]int{}
	for _, file := range ruleTests(t) {
		var f struct {
			Tests []struct {
				Rules []struct {
					Alertname string
					Expected  []any `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal([]byte(readFile(t, file)), &f); err != nil {
			t.Fatal(err)
		}
		for _, test := range f.Tests {
			for _, r := range test.Rules {
				if len(r.Expected) > 0 {
					firing[r.Alertname]++
				} else {
					quiet[r.Alertname]++
				}
			}
		}
	}
	names := map[string]bool{}
	for _, a := range alerts(t) {
		if names[a.Alert] {
			t.Errorf("there are two alerts %s", a.Alert)
		}
		names[a.Alert] = true
		if firing[a.Alert] == 0 || quiet[a.Alert] == 0 {
			t.Errorf("%s: it fires in %d tests and is quiet in %d", a.Alert, firing[a.Alert], quiet[a.Alert])
		}
	}
}

// The tests can fail: with all expressions false each alert has one that misses it, with all true one that it is too much for.
// Each alert is tried alone, with its own tests: an evaluation costs as much as it has alerts.
func TestTheTestsOfRulesCanFail(t *testing.T) {
	t.Parallel()
	for expr, failure := range map[string]string{"vector(0) > 1": `exp:\[0:[^\]]*\],got:\[\]`, "vector(1)": `exp:\[\],got:\[0:`} {
		t.Run(expr, func(t *testing.T) {
			t.Parallel()
			dir, args := t.TempDir(), []string{"test", "rules"}
			for _, a := range alerts(t) {
				// It has no annotations: they are filled in at each evaluation of an alert that fires, and that takes most of the time.
				rules := map[string]any{"groups": []any{map[string]any{"name": a.Alert, "rules": []any{map[string]any{
					"alert": a.Alert, "expr": expr, "for": cmp.Or(a.For, "0s"), "labels": a.Labels}}}}}
				for i, file := range ruleTests(t) {
					tests := testsOf(t, file, a.Alert)
					tests["rule_files"] = []string{a.Alert + ".yml"}
					name := filepath.Join(dir, fmt.Sprint(a.Alert, ".", i, ".test.yml"))
					writeYAML(t, filepath.Join(dir, a.Alert+".yml"), rules)
					writeYAML(t, name, tests)
					args = append(args, name)
				}
			}
			out, err := promtool(t, "", args...)
			if err == nil {
				t.Fatalf("with %s for all expressions the tests pass", expr)
			}
			out = strings.Join(strings.Fields(quoted.ReplaceAllString(out, "")), "")
			for _, a := range alerts(t) {
				if !regexp.MustCompile("alertname:" + a.Alert + ",time:[^,]*," + failure).MatchString(out) {
					t.Errorf("with %s no test of %s fails as it should (%s)", expr, a.Alert, failure)
				}
			}
		})
	}
}

// testsOf is a file of tests with no more than what it says about one alert.
func testsOf(t *testing.T, file, alert string) map[string]any {
	t.Helper()
	var f map[string]any
	if err := yaml.Unmarshal([]byte(readFile(t, file)), &f); err != nil {
		t.Fatal(err)
	}
	tests := []any{}
	for _, test := range f["tests"].([]any) {
		test := test.(map[string]any)
		about := []any{}
		for _, said := range asList(test["alert_rule_test"]) {
			if said.(map[string]any)["alertname"] == alert {
				about = append(about, said)
			}
		}
		if len(about) > 0 {
			test["alert_rule_test"] = about
			delete(test, "promql_expr_test")
			tests = append(tests, test)
		}
	}
	f["tests"] = tests
	return f
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

func writeYAML(t *testing.T, file string, content any) {
	t.Helper()
	raw, err := yaml.Marshal(content)
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// quoted are texts of labels and annotations.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// grafana is where compose.yaml shows the dashboards; the chart puts another address in its place.
const grafana = "http://127.0.0.1:3000"

var heading = regexp.MustCompile(`(?m)^### (\w+)$`)

// Each alert has a section of the runbook, with all three parts, and leads there and to a dashboard; no section is of no
// alert.
func TestEveryAlertIsInTheRunbook(t *testing.T) {
	t.Parallel()
	runbook := readFile(t, deploy("../docs/runbook.md"))
	sections := map[string]string{}
	places := heading.FindAllStringSubmatchIndex(runbook, -1)
	for i, at := range places {
		end := len(runbook)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		sections[runbook[at[2]:at[3]]] = runbook[at[1]:end]
	}
	var boards []string
	for _, d := range dashboards(t) {
		boards = append(boards, d.UID)
	}
	for _, a := range alerts(t) {
		section, ok := sections[a.Alert]
		if !ok {
			t.Errorf("%s has no section in the runbook", a.Alert)
		}
		delete(sections, a.Alert)
		for _, part := range []string{"**Means.**", "**Look.**", "**Do.**"} {
			if !strings.Contains(section, part) {
				t.Errorf("the section of %s lacks %s", a.Alert, part)
			}
		}
		if url := a.Annotations["runbook_url"]; !strings.HasSuffix(url, "/docs/runbook.md#"+strings.ToLower(a.Alert)) {
			t.Errorf("%s leads to %q", a.Alert, url)
		}
		if url := a.Annotations["dashboard_url"]; !slices.ContainsFunc(boards, func(uid string) bool { return url == grafana+"/d/"+uid }) {
			t.Errorf("%s leads to the dashboard %q, which is not there", a.Alert, url)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || a.Labels["severity"] == "" {
			t.Errorf("%s lacks a summary, a description or a severity", a.Alert)
		}
	}
	for name := range sections {
		t.Errorf("the runbook has a section about %s, which is no alert", name)
	}
}
