package packaging

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// docker runs a command of Docker's.
func docker(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func mustDocker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := docker(t, args...)
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// needDocker skips where no Docker engine answers that runs on this machine, whose loopback its containers can share.
func needDocker(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("docker"); err != nil || runtime.GOOS != "linux" {
		logtest.NoDocker(t, "there is no Docker on Linux, so the image was not built; install docker.io and start it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "docker", "info", "--format", "{{.ServerVersion}}").CombinedOutput(); err != nil {
		logtest.NoDocker(t, "no Docker engine answers, so the image was not built; start dockerd: "+strings.TrimSpace(string(out)))
	}
}

// image builds the last stage of deploy/Dockerfile, with a binary that is built here as the stage before says, because
// that one's image would have to be downloaded.
func image(t *testing.T) (tag string) {
	t.Helper()
	dir := t.TempDir()
	stages := strings.SplitAfter(read(t, filepath.Join(root, "deploy", "Dockerfile")), "\nFROM ")
	if len(stages) != 3 { // and the text before the first
		t.Fatalf("deploy/Dockerfile has %d stages", len(stages)-1)
	}
	last := "FROM " + stages[2]
	if n := strings.Count(last, "COPY --from=build "); n != 2 {
		t.Fatalf("the last stage takes %d files of the first:\n%s", n, last)
	}
	put := func(name string, content []byte, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, mode); err != nil {
			t.Fatal(err)
		}
	}
	put("Dockerfile", []byte(strings.ReplaceAll(last, "COPY --from=build ", "COPY ")), 0o644)
	put("etc/ssl/certs/ca-certificates.crt", kafkatest.NewAuthority(t).PEM(), 0o644)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/postrider/postrider/cmd/internal/obs.version=v9.8.7",
		"-o", filepath.Join(dir, "postrider"), "./cmd/postrider")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tag = "postrider-test:" + strings.ToLower(rand.Text())
	mustDocker(t, "build", "--tag", tag, dir)
	t.Cleanup(func() {
		if out, err := docker(t, "image", "rm", "--force", tag); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return tag
}

// confined are the flags of a container that may do nothing: as the chart runs it, and compose.yaml.
var confined = []string{"--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"}

// The image runs with nothing to write to, no user's rights and no capabilities: it says its version without a network,
// and as serve it is alive, ready and delivers an event, and ends by itself when it is told to.
func TestImageRuns(t *testing.T) {
	t.Parallel()
	needDocker(t)
	tag := image(t)
	if user := mustDocker(t, "image", "inspect", "--format", "{{.Config.User}}", tag); user != "65532:65532" {
		t.Errorf("it runs as %s", user)
	}
	alone := append([]string{"run", "--rm", "--network", "none"}, confined...)
	if out := mustDocker(t, append(alone, tag, "version")...); !strings.Contains(out, "v9.8.7") {
		t.Errorf("version says %s", out)
	}
	if out := mustDocker(t, append(alone, "--env", "OUTBOX_DISPATCHES=7", tag, "config", "show")...); !strings.Contains(out, "outbox.dispatches") {
		t.Errorf("config show says %s", out)
	}
	if out, err := docker(t, append(alone, "--entrypoint", "/bin/sh", tag)...); err == nil {
		t.Errorf("there is a shell in it: %s", out)
	}

	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	if err := migrations.ApplyRoles(t.Context(), db.Conn(t)); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"orders", "postrider.dlq", "postrider.lifecycle"} {
		broker.CreateTopic(t, topic, 1, nil)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	name := strings.ReplaceAll(tag, ":", "-")
	serve := append([]string{"run", "--detach", "--name", name, "--network", "host", "--env", "DATABASE_URL=" + db.As("postrider_relay"),
		"--env", "KAFKA_BROKERS=" + strings.Join(broker.Addrs, ","), "--env", "HTTP_ADDRESS=" + address}, confined...)
	t.Cleanup(func() {
		logs, _ := docker(t, "logs", name)
		if out, err := docker(t, "rm", "--force", name); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		if t.Failed() {
			t.Logf("the container said:\n%s", logs)
		}
	})
	mustDocker(t, append(serve, tag)...)
	for _, path := range []string{"/livez", "/readyz"} {
		answers(t, "http://"+address+path)
	}
	if _, err := db.Conn(t).Exec(t.Context(), `insert into postrider.outbox_event (topic, key, payload) values ('orders', 'k', 'from an image')`); err != nil {
		t.Fatal(err)
	}
	if got := broker.ReadAll(t, "orders", 1); string(got[0].Value) != "from an image" {
		t.Errorf("the topic has %q", got[0].Value)
	}
	mustDocker(t, "stop", "--time", "30", name)
	if code := mustDocker(t, "inspect", "--format", "{{.State.ExitCode}} {{.State.OOMKilled}}", name); code != "0 false" {
		t.Errorf("it ended with %s", code)
	}
}

// answers waits until the server at url answers well.
func answers(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(3 * time.Minute)
	for {
		resp, err := client.Get(url)
		said := ""
		if err == nil {
			said = resp.Status
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: %s %v", url, said, err)
		}
	}
}
