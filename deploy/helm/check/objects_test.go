package check

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// everything switches on whatever can be.
const everything = `
image: {repository: registry.example/postrider, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
imagePullSecrets: [{name: pull}]
config:
  kafka: {brokers: ["kafka-0:9092", "kafka-1:9092"]}
  database: {url: "postgres://relay@db:5432/app?sslmode=verify-full"}
  outbox: {dispatches: 8, commit_order: true}
  topics: [{match: "orders.*", max_attempts: 20}]
database: {existingSecret: relay-login, urlKey: "", passwordKey: password}
secretFiles: [{secret: kafka-tls, mountPath: /etc/postrider/kafka}, {secret: db-ca, mountPath: /etc/postrider/db}]
extraEnv: [{name: PGSSLROOTCERT, value: /etc/postrider/db/ca.crt}]
extraEnvFrom: [{secretRef: {name: more}}]
migration: {roles: true, database: {existingSecret: owner-login}}
serviceAccount: {annotations: {a: b}}
service: {annotations: {a: b}}
networkPolicy:
  enabled: true
  api: {from: [{podSelector: {matchLabels: {app: gateway}}}]}
  metrics: {from: [{namespaceSelector: {matchLabels: {name: monitoring}}}]}
  dns: {to: [{namespaceSelector: {}}]}
  database: {to: [{ipBlock: {cidr: 10.0.0.5/32}}], ports: [5432, 6432]}
  kafka: {to: [{ipBlock: {cidr: 10.0.1.0/24}}], ports: [9092, 9093]}
  extraEgress: [{ports: [{port: 4317, protocol: TCP}]}]
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}, grafanaURL: "https://grafana.example/", runbookURL: "https://wiki.example/runbook"}
dashboards: {enabled: true, annotations: {a: b}}
podAnnotations: {a: b}
podLabels: {a: b}
nodeSelector: {a: b}
tolerations: [{key: a, operator: Exists}]
affinity: {podAntiAffinity: {}}
priorityClassName: high
`

var inputs = map[string]string{"enough": enough, "everything": everything}

// pods are the templates of all pods, by the name of their owner.
func (o objects) pods() map[string]core.PodTemplateSpec {
	all := map[string]core.PodTemplateSpec{}
	for name, d := range o.deployments {
		all[name] = d.Spec.Template
	}
	for name, j := range o.jobs {
		all[name] = j.Spec.Template
	}
	return all
}

func TestPodsHaveNoRights(t *testing.T) {
	t.Parallel()
	for _, values := range inputs {
		pods := render(t, values).pods()
		if len(pods) != 5 {
			t.Errorf("%d pods: %v", len(pods), slices.Collect(maps.Keys(pods)))
		}
		for name, p := range pods {
			s := p.Spec.SecurityContext
			if s == nil || !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s: %+v", name, s)
			}
			if p.Spec.AutomountServiceAccountToken == nil || *p.Spec.AutomountServiceAccountToken {
				t.Errorf("%s has a token of the cluster", name)
			}
			if p.Spec.EnableServiceLinks == nil || *p.Spec.EnableServiceLinks {
				t.Errorf("%s gets variables of services", name)
			}
			for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
				s := c.SecurityContext
				if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
					t.Errorf("%s: %s: %+v", name, c.Name, s)
				}
				if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
					t.Errorf("%s: %s says nothing of its memory or CPU", name, c.Name)
				}
			}
			for _, v := range p.Spec.Volumes {
				if v.Secret != nil && *v.Secret.DefaultMode != 0o440 {
					t.Errorf("%s: %s has the mode %o", name, v.Name, *v.Secret.DefaultMode)
				}
			}
		}
	}
}

func TestDeploymentsAreProbed(t *testing.T) {
	t.Parallel()
	for _, d := range render(t, enough).deployments {
		c := d.Spec.Template.Spec.Containers[0]
		for want, probe := range map[string][]*core.Probe{"/livez": {c.StartupProbe, c.LivenessProbe}, "/readyz": {c.ReadinessProbe}} {
			for _, p := range probe {
				if p == nil || p.HTTPGet.Path != want || p.HTTPGet.Port.String() != c.Ports[0].Name {
					t.Errorf("%s: a probe of %s is %+v", d.Name, want, p)
				}
			}
		}
		if roles := flag(d, "--roles"); !strings.HasSuffix(roles, ",http") {
			t.Errorf("%s runs %s, so no server answers the probes", d.Name, roles)
		}
	}
}

// flag is the argument after this one.
func flag(d *apps.Deployment, name string) string {
	args := d.Spec.Template.Spec.Containers[0].Args
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// Every selector finds what it is meant to find, and nothing else.
func TestSelectors(t *testing.T) {
	t.Parallel()
	o := render(t, everything)
	found := func(set map[string]string) []string {
		var names []string
		for name, p := range o.pods() {
			if labels.SelectorFromSet(set).Matches(labels.Set(p.Labels)) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	all := []string{"r-postrider-collector", "r-postrider-desk", "r-postrider-relay", "r-postrider-tasks"}
	everybody := slices.Sorted(slices.Values(append([]string{"r-postrider-migrate"}, all...)))
	check := func(what string, got, want []string) {
		if !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", what, got, want)
		}
	}
	for name, d := range o.deployments {
		check("the deployment "+name, found(d.Spec.Selector.MatchLabels), []string{name})
	}
	for name, b := range o.budgets {
		check("the budget "+name, found(b.Spec.Selector.MatchLabels), []string{name})
	}
	if got := slices.Sorted(maps.Keys(o.budgets)); !slices.Equal(got, all) {
		t.Errorf("budgets: %v", got)
	}
	check("the service of the API", found(o.services["r-postrider"].Spec.Selector), []string{"r-postrider-desk"})
	check("the service of metrics", found(o.services["r-postrider-metrics"].Spec.Selector), all)
	check("the network policy", found(o.networks["r-postrider"].Spec.PodSelector.MatchLabels), everybody)
	check("the network policy of the API", found(o.networks["r-postrider-api"].Spec.PodSelector.MatchLabels), []string{"r-postrider-desk"})
	monitor := labels.SelectorFromSet(o.monitors["r-postrider"].Spec.Selector.MatchLabels)
	for name, s := range o.services {
		if monitor.Matches(labels.Set(s.Labels)) != (name == "r-postrider-metrics") {
			t.Errorf("the monitor looks at the wrong service: %s", name)
		}
	}
}

func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	if n := render(t, enough).networks; len(n) != 0 {
		t.Errorf("it is there without being asked for: %v", n)
	}
	o := render(t, everything)
	spec := o.networks["r-postrider"].Spec
	ports := map[int32]int{}
	for _, e := range spec.Egress {
		for _, p := range e.Ports {
			ports[p.Port.IntVal] = len(e.To)
		}
	}
	if want := map[int32]int{53: 1, 5432: 1, 6432: 1, 9092: 1, 9093: 1, 4317: 0}; !maps.Equal(ports, want) {
		t.Errorf("out to %v, want %v", ports, want)
	}
	if len(spec.Ingress) != 1 || len(spec.Ingress[0].From) != 1 || spec.Ingress[0].From[0].NamespaceSelector == nil {
		t.Errorf("in for metrics: %+v", spec.Ingress)
	}
	if api := o.networks["r-postrider-api"].Spec.Ingress; len(api) != 1 || len(api[0].From) != 1 || api[0].From[0].PodSelector == nil {
		t.Errorf("in for the API: %+v", api)
	}
}

// The hook runs before the rest of the chart is there, so it may refer to nothing of it.
func TestMigration(t *testing.T) {
	t.Parallel()
	for name, values := range inputs {
		o := render(t, values)
		job := o.jobs["r-postrider-migrate"]
		if job == nil || job.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" {
			t.Fatalf("%s: %+v", name, job)
		}
		p := job.Spec.Template.Spec
		if p.ServiceAccountName != "" {
			t.Errorf("%s: the hook's account is %s", name, p.ServiceAccountName)
		}
		for _, v := range p.Volumes {
			if v.ConfigMap == nil {
				continue
			}
			settings := o.configs[v.ConfigMap.Name]
			if settings == nil || settings.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" || settings.Annotations["helm.sh/hook-weight"] != "-1" {
				t.Errorf("%s: the hook reads the ConfigMap %s, which is not there before it: %+v", name, v.ConfigMap.Name, settings)
			} else if settings.Data["postrider.yaml"] != o.configs["r-postrider"].Data["postrider.yaml"] {
				t.Errorf("%s: the hook examines other settings than serve gets", name)
			}
		}
		secret, commands := "postrider-database", []string{"config validate --config /etc/postrider/postrider.yaml", "migrate up"}
		if name == "everything" {
			secret, commands = "owner-login", append(commands, "migrate roles --apply")
		}
		var got []string
		for _, c := range append(p.InitContainers, p.Containers...) {
			got = append(got, strings.Join(c.Args, " "))
			if c.Name == "validate" { // it examines what serve gets
				if serve := o.deployments["r-postrider-relay"].Spec.Template.Spec.Containers[0].Env[0]; !reflect.DeepEqual(c.Env[0], serve) {
					t.Errorf("%s: it validates with the login %+v, and serve has %+v", name, c.Env[0], serve)
				}
				continue
			}
			if e := c.Env[0]; e.Name != "DATABASE_URL" || e.ValueFrom.SecretKeyRef.Name != secret || e.ValueFrom.SecretKeyRef.Key != "url" {
				t.Errorf("%s: its login is %+v", name, e)
			}
		}
		if !slices.Equal(got, commands) {
			t.Errorf("%s: it runs %q", name, got)
		}
	}
	if o := render(t, enough+"migration: {enabled: false}"); len(o.jobs) != 0 {
		t.Errorf("it is there though it is off: %v", o.jobs)
	}
}

// The hook has no settings file, so a file with the password of the database must be named to it, and be there. It is that
// of serve's login, and no other login's.
func TestMigrationHasThePasswordFile(t *testing.T) {
	t.Parallel()
	const files = `
config: {kafka: {brokers: [kafka:9092]}, database: {url: "postgres://relay@db/app", password_file: /etc/postrider/login/password}}
secretFiles: [{secret: login, mountPath: /etc/postrider/login}, {secret: owner, mountPath: /etc/postrider/owner}]
`
	for name, c := range map[string]struct{ values, want string }{
		"none":                   {enough, ""},
		"that of serve":          {files, "/etc/postrider/login/password"},
		"another login":          {files + "migration: {database: {existingSecret: owner-login}}", ""},
		"another login's":        {files + "migration: {database: {existingSecret: owner-login, passwordFile: /etc/postrider/owner/pw}}", "/etc/postrider/owner/pw"},
		"another of serve":       {files + "migration: {database: {passwordFile: /etc/postrider/owner/pw}}", "/etc/postrider/owner/pw"},
		"both of its containers": {files + "migration: {roles: true}", "/etc/postrider/login/password"},
	} {
		p := render(t, c.values).jobs["r-postrider-migrate"].Spec.Template.Spec
		for _, container := range append(p.InitContainers, p.Containers...) {
			if container.Name == "validate" { // it has the settings file
				continue
			}
			got := ""
			for _, e := range container.Env {
				if e.Name == "DATABASE_PASSWORD_FILE" {
					got = e.Value
				}
			}
			if got != c.want {
				t.Errorf("%s: %s gets the file %q, want %q", name, container.Name, got, c.want)
			}
			mounted := slices.ContainsFunc(container.VolumeMounts, func(m core.VolumeMount) bool { return m.ReadOnly && strings.HasPrefix(c.want, m.MountPath+"/") })
			if c.want != "" && !mounted {
				t.Errorf("%s: nothing is mounted where %s is: %+v", name, c.want, container.VolumeMounts)
			}
		}
	}
	if _, errs, err := run(t, enough+"migration: {database: {passwordFile: password}}", "template", "r", chart); err == nil || !strings.Contains(errs, "passwordFile") {
		t.Errorf("a file that is no path is not refused: %v\n%s", err, errs)
	}
}

func TestLoginsAndFiles(t *testing.T) {
	t.Parallel()
	for name, d := range render(t, everything).deployments {
		p := d.Spec.Template.Spec
		env := map[string]core.EnvVar{}
		for _, e := range p.Containers[0].Env {
			env[e.Name] = e
		}
		if e := env["DATABASE_URL"]; e.Value != "postgres://relay@db:5432/app?sslmode=verify-full" {
			t.Errorf("%s: %+v", name, e)
		}
		if e := env["PGPASSWORD"]; e.ValueFrom == nil || e.ValueFrom.SecretKeyRef.Name != "relay-login" || e.ValueFrom.SecretKeyRef.Key != "password" {
			t.Errorf("%s: %+v", name, e)
		}
		if env["PGSSLROOTCERT"].Value != "/etc/postrider/db/ca.crt" || p.Containers[0].EnvFrom[0].SecretRef.Name != "more" {
			t.Errorf("%s: the further environment is not there: %v", name, env)
		}
		volumes := map[string]string{}
		for _, v := range p.Volumes {
			if v.Secret != nil {
				volumes[v.Name] = v.Secret.SecretName
			}
		}
		at := map[string]string{}
		for _, m := range p.Containers[0].VolumeMounts {
			if !m.ReadOnly {
				t.Errorf("%s may write to %s", name, m.MountPath)
			}
			at[m.MountPath] = volumes[m.Name]
		}
		if at["/etc/postrider/kafka"] != "kafka-tls" || at["/etc/postrider/db"] != "db-ca" {
			t.Errorf("%s: files of secrets are at %v", name, at)
		}
		if p.Containers[0].Image != "registry.example/postrider@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" {
			t.Errorf("%s: %s", name, p.Containers[0].Image)
		}
	}
}

// Pods are made anew when the settings change, and only then.
func TestSettingsRollOut(t *testing.T) {
	t.Parallel()
	sum := func(values string) string {
		return render(t, values).deployments["r-postrider-relay"].Spec.Template.Annotations["checksum/config"]
	}
	before := sum(enough)
	if again := sum(enough + "service: {port: 80}"); again != before {
		t.Error("another port of the service makes the pods anew")
	}
	if after := sum(strings.Replace(enough, "kafka:9092", "kafka:9093", 1)); after == before {
		t.Error("other brokers do not make the pods anew")
	}
}

// The alerts in the object are the alerts of the file, each with its expression.
func TestRules(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../prometheus/postrider.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	raw = []byte(strings.NewReplacer("http://127.0.0.1:3000/", "https://grafana.example/",
		"https://github.com/postrider/postrider/blob/main/docs/runbook.md", "https://wiki.example/runbook").Replace(string(raw)))
	got, err := yaml.Marshal(render(t, everything).rules["r-postrider"].Spec)
	if err != nil {
		t.Fatal(err)
	}
	var object, file any
	for text, into := range map[*[]byte]*any{&got: &object, &raw: &file} {
		if err := yaml.Unmarshal(*text, into); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := yaml.Marshal(object)
	b, _ := yaml.Marshal(file)
	if string(a) != string(b) || !strings.Contains(string(a), "RelayAbsent") {
		t.Errorf("the object has\n%s\nthe file\n%s", a, b)
	}
}
