package check

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// manySources are sources and no desk: each of the three ways to name them follows.
const (
	manySources = `
config: {kafka: {brokers: [kafka:9092]}}
deployments: {collector: {enabled: false}, tasks: {enabled: false}, desk: {enabled: false}}
`
	inline = `
sources:
  inline:
    - {name: orders, url: "postgres://relay@db:5432/orders", password_file: /etc/postrider/passwords/orders, topics: {allow: ["orders.*"]}}
    - {name: billing, url_file: /etc/postrider/passwords/billing, topics: {allow: [billing], rules: [{match: billing, max_attempts: 3}]}, limits: {connections: 3}, sleep: 5m}
secretFiles: [{secret: passwords, mountPath: /etc/postrider/passwords}]
`
	fromSecret = "sources: {secret: databases}\n"
	fromMap    = "sources: {configMap: databases}\n"
)

// folder is the volume that a container has where the settings say that the sources are; what a file alone is mounted from is
// never changed.
func folder(t *testing.T, o objects, settings string, p core.PodSpec, c core.Container) core.Volume {
	t.Helper()
	for _, v := range p.Volumes {
		if v.ConfigMap == nil || o.configs[v.ConfigMap.Name] == nil {
			continue
		}
		var file struct {
			Dir string `json:"sources_dir"`
		}
		if err := yaml.Unmarshal([]byte(o.configs[v.ConfigMap.Name].Data[settings]), &file); err != nil || file.Dir == "" {
			t.Fatalf("%s names no sources_dir: %v", settings, err)
		}
		at := slices.IndexFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == file.Dir })
		if at < 0 || c.VolumeMounts[at].SubPath != "" || c.VolumeMounts[at].SubPathExpr != "" || !c.VolumeMounts[at].ReadOnly {
			t.Fatalf("%s: %s is not mounted as a folder: %+v", c.Name, file.Dir, c.VolumeMounts)
		}
		return p.Volumes[slices.IndexFunc(p.Volumes, func(v core.Volume) bool { return v.Name == c.VolumeMounts[at].Name })]
	}
	t.Fatalf("%s reads no settings: %+v", c.Name, p.Volumes)
	return core.Volume{}
}

// TestSourcesAreAFolder: every process, and the hook that examines the settings, has the sources where its settings say.
func TestSourcesAreAFolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values, secret, configMap string
		pods                      int
	}{
		"a Secret":               {manySources + fromSecret, "databases", "", 2},
		"a ConfigMap":            {manySources + fromMap, "", "databases", 2},
		"inline":                 {manySources + inline, "r-postrider-sources", "", 2},
		"a Secret beside a desk": {enough + fromSecret, "databases", "", 5},
		"inline and everything":  {everything[:strings.Index(everything, "database: {existingSecret")] + everything[strings.Index(everything, "extraEnv:"):] + inline, "r-postrider-sources", "", 5},
	} {
		o := render(t, c.values)
		if len(o.pods()) != c.pods {
			t.Errorf("%s: the pods are %v", name, slices.Collect(maps.Keys(o.pods())))
		}
		for owner, pod := range o.pods() {
			container := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)[0]
			v, secret := folder(t, o, "postrider.yaml", pod.Spec, container), c.secret
			if owner == "r-postrider-migrate" && secret == "r-postrider-sources" {
				secret = "r-postrider-migrate-sources" // the other is not there before the hook
			}
			if (v.Secret == nil) != (secret == "") || v.Secret != nil && v.Secret.SecretName != secret ||
				(v.ConfigMap == nil) != (c.configMap == "") || v.ConfigMap != nil && v.ConfigMap.Name != c.configMap {
				t.Errorf("%s: %s has the sources from %+v", name, owner, v)
			}
		}
	}
}

// TestInlineSources: each is a file of a Secret, as it stands in the values, and is examined before it is taken. A key that is
// no key of data would stay when its source goes.
func TestInlineSources(t *testing.T) {
	t.Parallel()
	o := render(t, manySources+inline)
	made, examined := o.secrets["r-postrider-sources"], o.secrets["r-postrider-migrate-sources"]
	if made == nil || examined == nil || len(o.secrets) != 2 || len(made.StringData) > 0 || len(made.Annotations) > 0 {
		t.Fatalf("the Secrets are %+v", o.secrets)
	}
	if examined.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" || examined.Annotations["helm.sh/hook-weight"] != "-1" ||
		!maps.EqualFunc(made.Data, examined.Data, slices.Equal) {
		t.Errorf("the hook examines other sources: %+v", examined)
	}
	var values struct {
		Sources struct{ Inline []map[string]any }
	}
	if err := yaml.Unmarshal([]byte(inline), &values); err != nil {
		t.Fatal(err)
	}
	if len(made.Data) != len(values.Sources.Inline) {
		t.Errorf("%d files", len(made.Data))
	}
	for _, want := range values.Sources.Inline {
		var got map[string]any
		if err := yaml.Unmarshal(made.Data[want["name"].(string)+".yaml"], &got); err != nil || len(got) != len(want) {
			t.Errorf("%v is %v, %v", want, got, err)
		}
		for key, value := range want {
			a, _ := yaml.Marshal(got[key])
			b, _ := yaml.Marshal(value)
			if string(a) != string(b) {
				t.Errorf("%s of %s is %s, want %s", key, want["name"], a, b)
			}
		}
	}
}

// TestSourcesRollNothingOut: the kubelet brings other sources to the pods that run. Their first ones are other settings.
func TestSourcesRollNothingOut(t *testing.T) {
	t.Parallel()
	relay := func(values string) string {
		raw, err := yaml.Marshal(render(t, values).deployments["r-postrider-relay"].Spec)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	with := relay(manySources + inline)
	if with != relay(strings.Replace(manySources+inline, "max_attempts: 3", "max_attempts: 4", 1)) {
		t.Error("another source makes the pods anew")
	}
	if o := render(t, enough); o.deployments["r-postrider-relay"].Spec.Template.Annotations["checksum/config"] ==
		render(t, enough+inline).deployments["r-postrider-relay"].Spec.Template.Annotations["checksum/config"] {
		t.Error("the first sources do not make the pods anew")
	}
}

// TestNoDesk: without a database of its own an installation carries sources alone, and asks for no login of a desk.
func TestNoDesk(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(chart + "/values-sources.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := render(t, string(raw)+enough[:strings.Index(enough, "database:")]+fromSecret)
	d := o.deployments["r-postrider-relay"]
	if len(o.deployments) != 1 || d == nil || flag(d, "--roles") != "relay,http" {
		t.Fatalf("deployments: %v", o.deployments)
	}
	env := map[string]string{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if want := map[string]string{"HTTP_ADDRESS": ":8080", "HTTP_API": "false"}; !maps.Equal(env, want) {
		t.Errorf("the environment is %v, want %v", env, want)
	}
	if o.services["r-postrider"] != nil || o.services["r-postrider-metrics"] == nil {
		t.Errorf("services: %v", slices.Collect(maps.Keys(o.services)))
	}
	if p := o.jobs["r-postrider-migrate"].Spec.Template.Spec; len(p.InitContainers) != 0 || len(p.Containers) != 1 || p.Containers[0].Name != "validate" || len(p.Containers[0].Env) != 0 {
		t.Errorf("the hook does more than to examine the settings: %+v", p)
	}
}

// TestSourcesAreMigrated: with logins that may, in a Secret that no process of serve gets.
func TestSourcesAreMigrated(t *testing.T) {
	t.Parallel()
	const owners = "migration: {sources: {secret: owners, canary: orders}}\n"
	for name, c := range map[string]struct {
		values   string
		commands []string
	}{
		"no desk": {manySources + fromSecret + owners, []string{"config validate --config /etc/postrider/postrider.yaml", "migrate up --sources --config /etc/postrider/sources.yaml --canary orders"}},
		"a desk":  {enough + inline + "migration: {sources: {secret: owners}}\n", []string{"config validate --config /etc/postrider/postrider.yaml", "migrate up", "migrate up --sources --config /etc/postrider/sources.yaml"}},
	} {
		o := render(t, c.values)
		p := o.jobs["r-postrider-migrate"].Spec.Template.Spec
		all := slices.Concat(p.InitContainers, p.Containers)
		var got []string
		for _, one := range all {
			got = append(got, strings.Join(one.Args, " "))
		}
		if !slices.Equal(got, c.commands) {
			t.Errorf("%s: it runs %q", name, got)
		}
		last := all[len(all)-1]
		if v := folder(t, o, "sources.yaml", p, last); v.Secret == nil || v.Secret.SecretName != "owners" || len(last.Env) > 0 {
			t.Errorf("%s: its logins are of %+v, %+v", name, v, last.Env)
		}
		if at := slices.IndexFunc(last.VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == "/etc/postrider/sources.yaml" }); at < 0 || last.VolumeMounts[at].SubPath != "sources.yaml" {
			t.Errorf("%s: it has no settings: %+v", name, last.VolumeMounts)
		}
		for _, d := range o.deployments {
			if slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v core.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "owners" }) {
				t.Errorf("%s: %s has the logins of owners", name, d.Name)
			}
		}
	}
}

// TestAutoscaling: the pods that carry sources are as many as their CPU asks for. An upgrade must not set their number, and
// maintenance takes one at a time.
func TestAutoscaling(t *testing.T) {
	t.Parallel()
	if n := len(render(t, manySources+inline).scalers); n != 0 {
		t.Errorf("%d autoscalers without being asked for", n)
	}
	o := render(t, enough+inline+"autoscaling: {enabled: true, maxReplicas: 9, targetCPUUtilizationPercentage: 60}\n")
	s := o.scalers["r-postrider-relay"]
	if len(o.scalers) != 1 || s == nil {
		t.Fatalf("autoscalers: %v", o.scalers)
	}
	m := s.Spec.Metrics
	if *s.Spec.MinReplicas != 2 || s.Spec.MaxReplicas != 9 || len(m) != 1 || m[0].Resource.Name != core.ResourceCPU || *m[0].Resource.Target.AverageUtilization != 60 {
		t.Errorf("%+v", s.Spec)
	}
	for name, d := range o.deployments {
		scaled := s.Spec.ScaleTargetRef.APIVersion == "apps/v1" && s.Spec.ScaleTargetRef.Kind == "Deployment" && s.Spec.ScaleTargetRef.Name == name
		if scaled != (name == "r-postrider-relay") || scaled != (d.Spec.Replicas == nil) {
			t.Errorf("%s: it is scaled: %v; its number is %v", name, scaled, d.Spec.Replicas)
		}
	}
	for least, want := range map[string]int{"1": 0, "2": 1} {
		if n := len(render(t, manySources+inline+"autoscaling: {enabled: true, minReplicas: "+least+"}\n").budgets); n != want {
			t.Errorf("with %s pods at least there are %d budgets, want %d: a budget would keep the only pod from ever being moved", least, n, want)
		}
	}
}

// TestHandedOver: a rolling update takes no pod before another is ready, and leaves each the time to hand over.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	d := render(t, manySources+inline).deployments["r-postrider-relay"].Spec
	if r := d.Strategy.RollingUpdate; r == nil || r.MaxUnavailable.IntValue() != 0 || r.MaxSurge.IntValue() != 1 || *d.Template.Spec.TerminationGracePeriodSeconds <= 30 {
		t.Errorf("%+v, and %d s to end", d.Strategy, *d.Template.Spec.TerminationGracePeriodSeconds)
	}
}
