package check

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestAlertsLeadWhereTheValuesSay: to the user's own Grafana and runbook; without a Grafana they lead to none.
func TestAlertsLeadWhereTheValuesSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, dashboard, runbook string }{
		"everything": {everything, "https://grafana.example/d/postrider-", "https://wiki.example/runbook#"},
		"defaults":   {enough + "prometheusRule: {enabled: true}", "", "https://github.com/postrider/postrider/blob/main/docs/runbook.md#"},
	} {
		alerts := 0
		for _, g := range render(t, c.values).rules["r-postrider"].Spec.Groups {
			for _, r := range g.Rules {
				if r.Alert == "" {
					continue
				}
				alerts++
				dashboard, has := r.Annotations["dashboard_url"]
				if !strings.HasPrefix(r.Annotations["runbook_url"], c.runbook) || !strings.HasPrefix(dashboard, c.dashboard) || has != (c.dashboard != "") {
					t.Errorf("%s: %s has %v", name, r.Alert, r.Annotations)
				}
			}
		}
		if alerts < 20 {
			t.Errorf("%s: only %d alerts", name, alerts)
		}
	}
}

// TestDashboardsAreConfigMaps: each is whole, and bears the label that Grafana's sidecar looks for; without being asked for there is none.
func TestDashboardsAreConfigMaps(t *testing.T) {
	t.Parallel()
	if n := len(render(t, enough).configs); n != 2 {
		t.Errorf("%d ConfigMaps without being asked for dashboards", n)
	}
	found := 0
	for name, c := range render(t, everything).configs {
		if !strings.Contains(name, "-dashboard-") {
			continue
		}
		found++
		if c.Labels["grafana_dashboard"] != "1" || c.Annotations["a"] != "b" || len(c.Data) != 1 {
			t.Errorf("%s: %v %v, %d files", name, c.Labels, c.Annotations, len(c.Data))
		}
		for file, text := range c.Data {
			var board struct{ UID string }
			if err := json.Unmarshal([]byte(text), &board); err != nil || board.UID != strings.TrimSuffix(file, ".json") {
				t.Errorf("%s: %s has the uid %q, %v", name, file, board.UID, err)
			}
		}
	}
	if found != 5 {
		t.Errorf("%d dashboards, want 5", found)
	}
}

// TestOnePod: the values for one pod make one Deployment that has all roles and the API.
func TestOnePod(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(chart + "/values-one-pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := render(t, string(raw)+enough)
	d := o.deployments["r-postrider-all"]
	if len(o.deployments) != 1 || d == nil {
		t.Fatalf("deployments: %v", o.deployments)
	}
	if roles := flag(d, "--roles"); *d.Spec.Replicas != 1 || roles != "relay,collector,detector,archiver,operator,http" {
		t.Errorf("%d pods with %s", *d.Spec.Replicas, roles)
	}
	for name, selector := range map[string]map[string]string{"r-postrider": o.services["r-postrider"].Spec.Selector} {
		for k, v := range selector {
			if d.Spec.Template.Labels[k] != v {
				t.Errorf("the service %s does not find the pod: %s=%s", name, k, v)
			}
		}
	}
	if len(o.budgets) != 0 {
		t.Errorf("a budget would keep the only pod from ever being moved: %v", o.budgets)
	}
}

// notes are what helm install says with values. helm template shows none, so a copy of the chart has them as an object.
func notes(t *testing.T, values string) string {
	t.Helper()
	text, err := os.ReadFile(chart + "/templates/NOTES.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "postrider")
	if err := os.CopyFS(dir, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	object := `{{ define "notes" }}` + string(text) + `{{ end }}{kind: Notes, text: {{ include "notes" . | toJson }}}`
	if err := os.WriteFile(filepath.Join(dir, "templates", "notes.yaml"), []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, err := run(t, values, "template", "r", dir, "--namespace", "events", "--show-only", "templates/notes.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	var made struct{ Text string }
	if err := yaml.Unmarshal([]byte(out), &made); err != nil {
		t.Fatal(err)
	}
	return made.Text
}

// TestNotes: the notes name a Deployment that there is, how to get an API key, and how to look at sources.
func TestNotes(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(chart + "/values-one-pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const key, look = " -- /postrider apikey create", " -- /postrider sources --config"
	for values, says := range map[string][2]string{
		enough:                   {"postrider-desk" + key, look},
		string(raw) + enough:     {"postrider-all" + key, "postrider-relay"},
		manySources + fromSecret: {"postrider-relay" + look, key},
	} {
		said := notes(t, values)
		if !strings.Contains(said, "exec deploy/r-"+says[0]) || strings.Contains(said, says[1]) || strings.Contains(said, "WARNING") {
			t.Errorf("it does not say %s, or it says %s:\n%s", says[0], says[1], said)
		}
	}
	const stopped = "deployments: {relay: {enabled: false}}\n"
	if said := notes(t, enough+stopped); !strings.Contains(said, "WARNING: nothing runs the role relay") {
		t.Errorf("%s", said)
	}
}
