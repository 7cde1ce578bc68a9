package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const chart = "../postrider"

// enough is what an installation must say.
const enough = `
config: {kafka: {brokers: [kafka:9092]}}
database: {existingSecret: postrider-database}
`

// helm is the path of the real one, built of the module's own tool line and kept in Go's cache.
var helm = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// run runs helm with these values, and returns what it said on both outputs.
func run(t *testing.T, values string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path, err := helm()
	if err != nil {
		t.Fatalf("build helm: %v", err)
	}
	home := t.TempDir()
	file := filepath.Join(home, "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, append(args, "--values", file, "--kube-version", "1.34.0")...) // unstamped, it takes itself for that of Kubernetes 1.20
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}                                              // no user's repositories or plugins
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// objects are the objects that the chart made, by name.
type objects struct {
	deployments map[string]*apps.Deployment
	jobs        map[string]*batch.Job
	services    map[string]*core.Service
	accounts    map[string]*core.ServiceAccount
	configs     map[string]*core.ConfigMap
	secrets     map[string]*core.Secret
	scalers     map[string]*autoscaling.HorizontalPodAutoscaler
	budgets     map[string]*policy.PodDisruptionBudget
	networks    map[string]*networking.NetworkPolicy
	monitors    map[string]*monitoring.ServiceMonitor
	rules       map[string]*monitoring.PrometheusRule
}

// render makes the objects of a release called r, and reads each as its type, which knows every field.
func render(t *testing.T, values string) objects {
	t.Helper()
	out, errs, err := run(t, values, "template", "r", chart, "--namespace", "events")
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, errs)
	}
	o := objects{map[string]*apps.Deployment{}, map[string]*batch.Job{}, map[string]*core.Service{}, map[string]*core.ServiceAccount{},
		map[string]*core.ConfigMap{}, map[string]*core.Secret{}, map[string]*autoscaling.HorizontalPodAutoscaler{}, map[string]*policy.PodDisruptionBudget{}, map[string]*networking.NetworkPolicy{},
		map[string]*monitoring.ServiceMonitor{}, map[string]*monitoring.PrometheusRule{}}
	read := map[string]func(name string, raw []byte){
		"apps/v1 Deployment": into(t, o.deployments), "batch/v1 Job": into(t, o.jobs), "v1 Service": into(t, o.services),
		"v1 ServiceAccount": into(t, o.accounts), "v1 ConfigMap": into(t, o.configs), "v1 Secret": into(t, o.secrets),
		"autoscaling/v2 HorizontalPodAutoscaler": into(t, o.scalers), "policy/v1 PodDisruptionBudget": into(t, o.budgets),
		"networking.k8s.io/v1 NetworkPolicy": into(t, o.networks), "monitoring.coreos.com/v1 ServiceMonitor": into(t, o.monitors),
		"monitoring.coreos.com/v1 PrometheusRule": into(t, o.rules),
	}
	for _, document := range strings.Split("\n"+out, "\n---\n") {
		var head struct {
			APIVersion, Kind string
			Metadata         meta.ObjectMeta
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if head.Kind == "" {
			continue
		}
		if keep := read[head.APIVersion+" "+head.Kind]; keep != nil {
			keep(head.Metadata.Name, []byte(document))
		} else {
			t.Errorf("a %s %s is not expected", head.APIVersion, head.Kind)
		}
		if head.Metadata.Labels["app.kubernetes.io/instance"] != "r" {
			t.Errorf("%s %s has no label of its release", head.Kind, head.Metadata.Name)
		}
	}
	return o
}

// into returns what reads an object as its type, and keeps it by its name.
func into[T any](t *testing.T, to map[string]*T) func(name string, raw []byte) {
	return func(name string, raw []byte) {
		t.Helper()
		v := new(T)
		if err := yaml.UnmarshalStrict(raw, v); err != nil {
			t.Errorf("%s: %v\n%s", name, err, raw)
		}
		if to[name] != nil {
			t.Errorf("there are two %T called %s", v, name)
		}
		to[name] = v
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{"enough": enough, "everything": everything, "sources": manySources + inline + "autoscaling: {enabled: true}"} {
		if out, errs, err := run(t, values, "lint", "--strict", chart); err != nil {
			t.Errorf("%s: %v\n%s%s", name, err, out, errs)
		}
	}
}

// The chart can be packed, and the package makes the same objects: no file outside of it is needed.
func TestPackage(t *testing.T) {
	t.Parallel()
	path, err := helm()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()

	if out, err := exec.CommandContext(t.Context(), path, "package", chart, "--destination", dir).CombinedOutput(); err != nil {
		t.Fatalf("helm package: %v\n%s", err, out)
	}
	packed, err := filepath.Glob(filepath.Join(dir, "postrider-*.tgz"))
	if err != nil || len(packed) != 1 {
		t.Fatal(packed, err)
	}
	from, _, err := run(t, everything, "template", "r", packed[0])
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := run(t, everything, "template", "r", chart)
	if err != nil || from != want || !strings.Contains(from, "alert: RelayAbsent") {
		t.Errorf("the packed chart makes something else: %v\n%s", err, from)
	}
}
