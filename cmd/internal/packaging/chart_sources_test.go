package packaging

import (
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// node is what a kubelet has of a pod: what it runs, and the files of its volumes.
type node struct {
	owner object                       // the Deployment or the Job
	files map[string]map[string]string // of each volume, by its name
}

// onNode renders the chart, which makes one Deployment and one Job. others are the Secrets that are not the chart's.
func onNode(t *testing.T, kind string, values any, others map[string]map[string]string) node {
	t.Helper()
	n := node{files: map[string]map[string]string{}}
	all := objects(t, values)
	for _, o := range all {
		if o.Kind == kind {
			n.owner = o
		}
	}
	for _, v := range n.owner.Spec.Template.Spec.Volumes {
		n.files[v.Name] = others[v.Secret.SecretName]
		for _, o := range all {
			files := map[string]string{}
			switch {
			case o.Kind == "ConfigMap" && o.Metadata.Name == v.ConfigMap.Name:
				files = o.Data
			case o.Kind == "Secret" && o.Metadata.Name == v.Secret.SecretName:
				for name, text := range o.Data {
					raw, err := base64.StdEncoding.DecodeString(text)
					if err != nil {
						t.Fatal(err)
					}
					files[name] = string(raw)
				}
			default:
				continue
			}
			n.files[v.Name] = files
		}
	}
	return n
}

// mount writes the files of a container under root, as a kubelet does: a single file (subPath) when it starts, and a folder
// whenever its object changes. Texts have root before the paths that the chart gives.
func (n node) mount(t *testing.T, c container, root string, starts bool) {
	t.Helper()
	for _, m := range c.VolumeMounts {
		at := filepath.Join(root, m.MountPath)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		text := func(name string) string {
			return strings.ReplaceAll(n.files[m.Name][name], "/etc/postrider/", root+"/etc/postrider/")
		}
		switch {
		case m.SubPath == "":
			swap(t, at, n.files[m.Name], text)
		case starts:
			write(t, at, text(m.SubPath), 0o600)
		}
	}
}

// swap makes a folder have these files: they are links into a folder that the link ..data leads to, and ..data is exchanged.
func swap(t *testing.T, folder string, files map[string]string, text func(name string) string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.MkdirAll(folder, 0o700))
	fresh, err := os.MkdirTemp(folder, "..2026_")
	check(err)
	for name := range files {
		write(t, filepath.Join(fresh, name), text(name), 0o600)
	}
	data, next := filepath.Join(folder, "..data"), filepath.Join(folder, "..data_tmp")
	old, _ := os.Readlink(data)
	check(os.Symlink(filepath.Base(fresh), next))
	check(os.Rename(next, data))
	links, err := os.ReadDir(folder)
	check(err)
	for _, link := range links {
		if _, stays := files[link.Name()]; !stays && !strings.HasPrefix(link.Name(), "..") {
			check(os.Remove(filepath.Join(folder, link.Name())))
		}
	}
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)); !os.IsExist(err) {
			check(err)
		}
	}
	if old != "" {
		check(os.RemoveAll(filepath.Join(folder, old)))
	}
}

// command is what a container runs, with its files under root.
func (n node) command(t *testing.T, c container, root string, env ...string) *exec.Cmd {
	t.Helper()
	n.mount(t, c, root, true)
	args := strings.Split(strings.ReplaceAll(strings.Join(c.Args, "\n"), "/etc/postrider/", root+"/etc/postrider/"), "\n")
	cmd := exec.Command(buildtest.Program(t, "cmd/postrider"), args...)
	cmd.Env = []string{} // and not that of the test
	for _, e := range c.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// servePod is a process of the Deployment, with its files.
type servePod struct {
	root  string
	cmd   *exec.Cmd
	log   logtest.Buffer
	ended chan error
	grace time.Duration
}

// start starts a pod, and returns when it is ready.
func (n node) start(t *testing.T) *servePod {
	t.Helper()
	spec := n.owner.Spec.Template.Spec
	c := spec.Containers[0]
	p := &servePod{root: t.TempDir(), ended: make(chan error, 1), grace: time.Duration(spec.TerminationGracePeriodSeconds) * time.Second}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	p.cmd = n.command(t, c, p.root, "HTTP_ADDRESS="+address)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("the process said:\n%s", p.log.String())
		}
	})
	answers(t, "http://"+address+c.ReadinessProbe.HTTPGet.Path)
	return p
}

// refresh has the pod see the files of another node.
func (p *servePod) refresh(t *testing.T, n node) {
	t.Helper()
	n.mount(t, n.owner.Spec.Template.Spec.Containers[0], p.root, false)
}

// stop ends a pod as a kubelet does.
func (p *servePod) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			t.Fatalf("it did not end cleanly: %v", err)
		}
	case <-time.After(p.grace):
		t.Fatalf("it would have been killed after %v", p.grace)
	}
}

var noDesk = map[string]any{"collector": map[string]any{"enabled": false}, "tasks": map[string]any{"enabled": false}, "desk": map[string]any{"enabled": false}}

// TestChartMigratesSources: the hook examines the sources that serve gets, and migrates the databases with the logins that may.
// Settings that serve would refuse change no database.
func TestChartMigratesSources(t *testing.T) {
	t.Parallel()
	helm(t)
	owners, sources := map[string]string{}, map[string]string{".password": "secret"}
	databases := []*pgx.Conn{}
	for _, name := range []string{"orders", "billing"} {
		db := pgtest.NewEmpty(t)
		databases = append(databases, db.Conn(t))
		owners[name+".yaml"] = fmt.Sprintf("{name: %s, url: %q, topics: {allow: [a]}}", name, db.URL)
		sources[name+".yaml"] = fmt.Sprintf("{name: %s, url: \"postgres://relay@db/%s\", password_file: .password, topics: {allow: [a]}}", name, name)
	}
	migrated := func() (n int) {
		for _, conn := range databases {
			if pgtest.Value[bool](t, conn, `select to_regclass('postrider.outbox_event') is not null and to_regclass('postrider.dlq_entry') is null`) {
				n++
			}
		}
		return n
	}
	hook := func() (said string, err error) {
		n := onNode(t, "Job", map[string]any{
			"config":      map[string]any{"kafka": map[string]any{"brokers": []string{"kafka:9092"}}},
			"deployments": noDesk,
			"sources":     map[string]any{"secret": "databases"},
			"migration":   map[string]any{"sources": map[string]any{"secret": "owners", "canary": "orders"}},
		}, map[string]map[string]string{"databases": sources, "owners": owners})
		spec := n.owner.Spec.Template.Spec
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			out, err := n.command(t, c, t.TempDir()).CombinedOutput()
			if said += string(out); err != nil {
				return said, err
			}
		}
		return said, nil
	}
	right := sources["billing.yaml"]
	sources["billing.yaml"] = "{name: billing, urll: x}"
	if said, err := hook(); err == nil || !strings.Contains(said, "unknown key urll") || migrated() != 0 {
		t.Errorf("%d databases are migrated, %v\n%s", migrated(), err, said)
	}
	sources["billing.yaml"] = right
	if said, err := hook(); err != nil || migrated() != len(databases) {
		t.Errorf("%d databases are migrated, %v\n%s", migrated(), err, said)
	}
}

// TestChartCarriesSources: processes read the sources that the chart writes, from files as a kubelet keeps them. A source
// comes and goes without a restart, and a rolling update hands every leader over.
func TestChartCarriesSources(t *testing.T) {
	t.Parallel()
	helm(t)
	broker := kafkatest.Kfake(t)
	broker.CreateTopic(t, "postrider.dlq", 1, nil)
	passwords := map[string]string{}
	databases := map[string]*pgx.Conn{}
	var inline []any
	for _, name := range []string{"orders", "billing"} {
		broker.CreateTopic(t, name+".made", 1, nil)
		db := pgtest.New(t)
		conn := db.Conn(t)
		pgtest.Exec(t, conn, `update postrider.outbox_source set source_uuid = gen_random_uuid()`)
		if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		address, password := db.Login(t, "postrider_relay")
		databases[name], passwords[name] = conn, password
		inline = append(inline, map[string]any{"name": name, "url": strings.Replace(address, ":"+password+"@", "@", 1), "password_file": "/etc/postrider/passwords/" + name,
			"topics": map[string]any{"allow": []string{name + ".*"}}})
	}
	with := func(sources ...any) node {
		return onNode(t, "Deployment", map[string]any{
			"config":      map[string]any{"kafka": map[string]any{"brokers": broker.Addrs}},
			"deployments": noDesk,
			"sources":     map[string]any{"inline": sources},
			"secretFiles": []any{map[string]any{"secret": "logins", "mountPath": "/etc/postrider/passwords"}},
		}, map[string]map[string]string{"logins": passwords})
	}
	sent := map[string]int{}
	send := func(names ...string) {
		t.Helper()
		for _, name := range names {
			sent[name]++
			pgtest.Exec(t, databases[name], `insert into postrider.outbox_event (topic, key, payload) values ($1, 'k', 'x')`, name+".made")
		}
		for _, name := range names {
			if got := broker.ReadAll(t, name+".made", sent[name]); len(got) != sent[name] {
				t.Errorf("%s.made has %d records, want %d", name, len(got), sent[name])
			}
		}
	}

	first := with(inline[:1]...).start(t)
	send("orders")
	both := with(inline...)
	first.refresh(t, both)
	send("orders", "billing")

	second := both.start(t)
	first.stop(t)
	send("orders", "billing")

	second.refresh(t, with(inline[1:]...))
	pgtest.WaitFor(t, databases["orders"], `select not leads from postrider.outbox_leader`)
	send("billing")
	second.stop(t)
	for name, conn := range databases {
		if terms, handed := pgtest.Value[int](t, conn, `select count(*) from postrider.outbox_receipt where note = 'began'`),
			pgtest.Value[int](t, conn, `select count(*) from postrider.outbox_receipt where note = 'ended'`); terms < 2 || handed != terms {
			t.Errorf("%s was led %d times, and handed over %d times", name, terms, handed)
		}
	}
}
