package packaging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

const (
	checkModule = "../../../deploy/helm/check"
	chart       = "../../../deploy/helm/postrider"
	rules       = "../../../deploy/prometheus/postrider.rules.yml"
)

// helm builds Helm, or finds it in Go's cache. Where that cannot be the test is noted as not tested.
func helm(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", "helm")
	cmd.Dir = checkModule
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		logtest.NotTested(t, fmt.Sprintf("the Helm chart: the module deploy/helm/check cannot be fetched or built (%v); it needs a Go module proxy once\n%s", err, errs.String()))
	}
	return strings.TrimSpace(string(out))
}

// The tests of the chart's objects, with Kubernetes' types, are in a module of their own.
func TestChart(t *testing.T) {
	t.Parallel()
	helm(t)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", ".")
	cmd.Dir = checkModule
	out, err := cmd.CombinedOutput()
	out = regexp.MustCompile(`(?m)^\s*=== .*\n`).ReplaceAll(out, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "--- PASS: "); n < 30 || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("only %d tests passed:\n%s", n, out)
	}
}

// deployment is the part of an object of the chart that the tests read.
// object is what the tests read of an object of the chart. Data of a Secret is in base64.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
				InitContainers                []container `yaml:"initContainers"`
				Containers                    []container
				Volumes                       []struct {
					Name      string
					ConfigMap struct{ Name string } `yaml:"configMap"`
					Secret    struct {
						SecretName string `yaml:"secretName"`
					}
				}
			}
		}
	}
}

type container struct {
	Args []string
	Env  []struct {
		Name, Value string
		ValueFrom   any `yaml:"valueFrom"`
	}
	LivenessProbe  probe `yaml:"livenessProbe"`
	StartupProbe   probe `yaml:"startupProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	VolumeMounts   []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		SubPath   string `yaml:"subPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path string } `yaml:"httpGet"`
}

// rendered returns the Deployments and the settings file that the chart makes of values.
func rendered(t *testing.T, values any) (deployments []object, settings string) {
	t.Helper()
	for _, o := range objects(t, values) {
		switch o.Kind {
		case "Deployment":
			deployments = append(deployments, o)
		case "ConfigMap":
			settings = o.Data["postrider.yaml"]
		}
	}
	return deployments, settings
}

// objects are those that the chart makes of values: Deployments, Jobs, ConfigMaps and Secrets as they are, and of the others
// what they have in common with these.
func objects(t *testing.T, values any) (all []object) {
	t.Helper()
	raw, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "values.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), helm(t), "template", "r", chart, "--values", file, "--kube-version", "1.34.0")
	cmd.Env = []string{"HOME=" + dir}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, errs.String())
	}
	for dec := yaml.NewDecoder(bytes.NewReader(out)); ; {
		var o object
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			// Objects of other kinds have other shapes; what was read of the kind says which it is.
			var other *yaml.TypeError
			if !errors.As(err, &other) || slices.Contains([]string{"Deployment", "Job", "ConfigMap", "Secret"}, o.Kind) {
				t.Fatal(err)
			}
		}
		all = append(all, o)
	}
}

// Every setting of the shipped example goes through the chart as it is, and what the chart says by itself, by
// environment and arguments, are settings and roles that the process knows.
func TestChartSpeaksTheSettings(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../deploy/postrider.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var example map[string]map[string]any
	sections := bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("\ntopics:"), []byte("\n#topics:")), []byte("\nsources:"), []byte("\n#sources:"))
	if err := yaml.Unmarshal(sections, &example); err != nil {
		t.Fatal(err)
	}
	delete(example["http"], "address") // the chart's
	delete(example["http"], "api")
	deployments, text := rendered(t, map[string]any{
		"config":   example,
		"database": map[string]any{"existingSecret": "login", "passwordKey": "password"},
	})
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	given, err := config.Load(config.From{File: "../../../deploy/postrider.example.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	var roles []app.Role
	apis := 0
	for _, d := range deployments {
		pod := d.Spec.Template.Spec
		c := pod.Containers[0]
		var environ []string
		for _, e := range c.Env {
			value := e.Value
			if e.ValueFrom != nil {
				value = "postgres://login@database/app"
			}
			environ = append(environ, e.Name+"="+value)
			known := e.Name == "PGPASSWORD" // the PostgreSQL client's own
			for _, k := range config.Keys() {
				known = known || k.Env() == e.Name
			}
			if !known {
				t.Errorf("%s: %s is no setting", d.Metadata.Name, e.Name)
			}
		}
		got, err := config.Load(config.From{File: file, Environ: environ})
		if err != nil {
			t.Errorf("%s: the process refuses its settings: %v\n%s", d.Metadata.Name, err, text)
			continue
		}
		if got.HTTP.Address != ":8080" {
			t.Errorf("%s listens on %s", d.Metadata.Name, got.HTTP.Address)
		}
		if got.HTTP.API {
			apis++
		}
		got.HTTP.Address, got.HTTP.API, got.Database.URL = given.HTTP.Address, given.HTTP.API, given.Database.URL
		for _, k := range config.Keys() {
			if a, b := valueOf(t, got, k), valueOf(t, given, k); a != b {
				t.Errorf("%s: %s is %s, want %s", d.Metadata.Name, k, a, b)
			}
		}
		if c.Args[0] != "serve" || c.Args[1] != "--config" || c.Args[3] != "--roles" {
			t.Fatalf("%s: %q", d.Metadata.Name, c.Args)
		}
		mine, err := app.ParseRoles(c.Args[4])
		if err != nil || !slices.Contains(mine, app.HTTP) {
			t.Errorf("%s: %v %v", d.Metadata.Name, mine, err)
		}
		for _, r := range mine {
			if r != app.HTTP {
				roles = append(roles, r)
			}
		}
		if pod.TerminationGracePeriodSeconds <= 30 {
			t.Errorf("%s is killed after %d s; a process ends what is in hand within 30 s", d.Metadata.Name, pod.TerminationGracePeriodSeconds)
		}
	}
	roles = append(roles, app.HTTP)
	want := app.Roles()
	slices.Sort(roles)
	slices.Sort(want)
	if !slices.Equal(roles, want) || apis != 1 {
		t.Errorf("the deployments together run %v, want %v; %d have the API", roles, want, apis)
	}
}

// valueOf is a setting as text.
func valueOf(t *testing.T, c config.Config, k config.Key) string {
	t.Helper()
	for _, s := range c.Settings() {
		if s.Name == k.String() {
			return s.Text
		}
	}
	t.Fatalf("%s is not among the settings", k)
	return ""
}

// The server of a process answers where the probes ask.
func TestProbesAreAnswered(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	server, err := httpapi.New(httpapi.Config{Address: "127.0.0.1:0", Metrics: registry, Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	defer func() {
		if err := errors.Join(server.Stop(context.WithoutCancel(t.Context())), <-served); err != nil {
			t.Error(err)
		}
	}()
	deployments, _ := rendered(t, map[string]any{
		"config":   map[string]any{"kafka": map[string]any{"brokers": []string{"kafka:9092"}}},
		"database": map[string]any{"existingSecret": "login"},
	})
	paths := []string{"/metrics"} // where the ServiceMonitor looks
	for _, d := range deployments {
		c := d.Spec.Template.Spec.Containers[0]
		paths = append(paths, c.LivenessProbe.HTTPGet.Path, c.StartupProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path)
	}
	for _, path := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%q answers %s", path, resp.Status)
		}
	}
}

// A chart can read no file outside of itself, so it has copies of the rules and the dashboards; make chart renews them.
func TestChartHasItsCopies(t *testing.T) {
	t.Parallel()
	copies := map[string]string{rules: filepath.Join(chart, "files", "postrider.rules.yml")}
	boards, err := filepath.Glob(filepath.Join(root, "deploy", "grafana", "dashboards", "*.json"))
	old, err2 := filepath.Glob(filepath.Join(chart, "files", "dashboards", "*"))
	if err != nil || err2 != nil || len(boards) == 0 || len(old) != len(boards) {
		t.Errorf("the chart has %d dashboards of %d: run make chart (%v, %v)", len(old), len(boards), err, err2)
	}
	for _, board := range boards {
		copies[board] = filepath.Join(chart, "files", "dashboards", filepath.Base(board))
	}
	for from, to := range copies {
		if read(t, from) != read(t, to) {
			t.Errorf("%s is not %s: run make chart", to, from)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
