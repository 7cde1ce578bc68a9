package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// none and broken are the two ways in which a kind of broker is not there.
var (
	errNone   = fmt.Errorf("%w: no such thing here", errNoDocker)
	errBroken = errors.New("it started and fell over")
)

func TestChoose(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		demanded    Kind
		address     bool
		docker      error
		jars        error
		want        Kind
		wantErr     string
		wantStarted []Kind
	}{
		{"docker first", "", false, nil, nil, KindDocker, "", []Kind{KindDocker}},
		{"jars without docker", "", false, errNone, nil, KindJars, "", []Kind{KindDocker, KindJars}},
		{"kfake without either", "", false, errNone, errNone, KindKfake, "", []Kind{KindDocker, KindJars}},
		{"address given", "", true, nil, nil, KindEnv, "", []Kind{KindEnv}},
		{"broken jars are no reason for kfake", "", false, errNone, errBroken, "", "fell over", []Kind{KindDocker, KindJars}},
		{"jars demanded", KindJars, true, nil, nil, KindJars, "", []Kind{KindJars}},
		{"demanded and not there", KindJars, false, nil, errNone, "", "which the environment demands", []Kind{KindJars}},
		{"kfake demanded", KindKfake, true, nil, nil, KindKfake, "", nil},
		{"unknown demanded", "redpanda", false, nil, nil, "", `POSTRIDER_TEST_KAFKA_KIND="redpanda" is none of`, nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var started []Kind
			fake := func(kind Kind, err error) starter {
				return func(context.Context) (*Broker, func() error, error) {
					started = append(started, kind)
					return &Broker{Kind: kind}, func() error { return nil }, err
				}
			}
			b, stop, err := choose(t.Context(), tc.demanded, tc.address, map[Kind]starter{
				KindEnv: fake(KindEnv, nil), KindDocker: fake(KindDocker, tc.docker), KindJars: fake(KindJars, tc.jars),
			})
			if !slices.Equal(started, tc.wantStarted) {
				t.Errorf("tried %v, want %v", started, tc.wantStarted)
			}
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error = %v, want one that says %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if b.Kind != tc.want {
				t.Errorf("chose %s, want %s", b.Kind, tc.want)
			}
			if err := stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
	}
}

func TestKfakeInsteadSaysWhy(t *testing.T) {
	t.Parallel()
	none := func(context.Context) (*Broker, func() error, error) { return nil, nil, errNone }
	b, stop, err := choose(t.Context(), "", false, map[Kind]starter{KindDocker: none, KindJars: none})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	if got := b.String(); b.Real() || !strings.Contains(got, "kfake (no real broker: ") || !strings.Contains(got, "no such thing here") {
		t.Errorf("broker is %q, want kfake and the reasons", got)
	}
}

func TestStartEnv(t *testing.T) {
	// t.Setenv forbids t.Parallel.
	t.Setenv(EnvBrokers, strings.Join(Kfake(t).Addrs, ","))
	b, _, err := startEnv(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b.Kind != KindEnv || b.Version == "" || !strings.Contains(b.String(), EnvBrokers) {
		t.Errorf("broker is %q of kind %s, want one with a version that names its variable", b, b.Kind)
	}
	t.Setenv(EnvBrokers, " , ")
	if _, _, err := startEnv(t.Context()); err == nil || !strings.Contains(err.Error(), "give host:port") {
		t.Errorf("error of an empty address = %v, want one that says what to give", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	t.Setenv(EnvBrokers, "127.0.0.1:1")
	if _, _, err := startEnv(ctx); err == nil || !strings.Contains(err.Error(), EnvBrokers+"=127.0.0.1:1") {
		t.Errorf("error of a dead address = %v, want one that names it", err)
	}
}

func TestUniqueName(t *testing.T) {
	t.Parallel()
	a, b := uniqueName("TestX/a b#01"), uniqueName("TestX/a b#01")
	if a == b || !strings.HasPrefix(a, "TestX-a-b-01-") {
		t.Errorf("names %q and %q, want two that begin with TestX-a-b-01-", a, b)
	}
	if long := uniqueName(strings.Repeat("x", 500)); len(long) > 249 {
		t.Errorf("a name has %d characters, Kafka allows 249", len(long))
	}
}

func TestPingDocker(t *testing.T) {
	t.Parallel()
	answer := func(status int) string {
		path := filepath.Join(t.TempDir(), "docker.sock")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/_ping" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.WriteHeader(status)
		})}
		done := make(chan struct{})
		go func() { defer close(done); _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close(); <-done })
		return "unix://" + path
	}
	if err := pingDockerAt(t.Context(), answer(http.StatusOK)); err != nil {
		t.Errorf("a daemon that answers: %v", err)
	}
	for name, host := range map[string]string{
		"a daemon that refuses": answer(http.StatusInternalServerError),
		"no socket":             "unix://" + filepath.Join(t.TempDir(), "absent.sock"),
		"nothing listens":       "tcp://127.0.0.1:1",
		"not an address":        "tcp://%zz",
	} {
		if err := pingDockerAt(t.Context(), host); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDockerHosts(t *testing.T) {
	// t.Setenv forbids t.Parallel.
	t.Setenv("DOCKER_HOST", "")
	t.Setenv("XDG_RUNTIME_DIR", "/run/user/1")
	got := dockerHosts()
	if !slices.Contains(got, "unix:///var/run/docker.sock") || !slices.Contains(got, "unix:///run/user/1/docker.sock") {
		t.Errorf("places %v lack the usual sockets", got)
	}
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:2375")
	if got := dockerHosts(); !slices.Equal(got, []string{"tcp://127.0.0.1:2375"}) {
		t.Errorf("places %v, want the one of DOCKER_HOST", got)
	}
}

func TestContainerEnv(t *testing.T) {
	t.Parallel()
	env := containerEnv("127.0.0.1", 25000)
	for k, want := range map[string]string{
		"KAFKA_ADVERTISED_LISTENERS":                  "PLAINTEXT://127.0.0.1:25000,INTERNAL://localhost:9094",
		"KAFKA_AUTO_CREATE_TOPICS_ENABLE":             "false",
		"KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
	} {
		if env[k] != want {
			t.Errorf("%s = %q, want %q", k, env[k], want)
		}
	}
}
