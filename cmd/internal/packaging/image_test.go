package packaging

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/cmd/internal/cli"
	"github.com/postrider/postrider/cmd/internal/config"
)

// The image is a static binary and certificates, run by the user that the chart says, built by the compiler of go.mod.
func TestImageIsAsSmallAsItSays(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(read(t, filepath.Join(root, "deploy", "Dockerfile")), "\\\n", " ")
	stages := regexp.MustCompile(`(?m)^FROM `).Split(text, -1)
	if len(stages) != 3 {
		t.Fatalf("there are %d stages", len(stages)-1)
	}
	build, image := stages[1], stages[2]
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, filepath.Join(root, "go.mod")))
	if !strings.HasPrefix(build, "golang:"+language[1]+" ") {
		t.Errorf("go.mod says Go %s, and the image is built by %s", language[1], strings.SplitN(build, "\n", 2)[0])
	}
	for _, part := range []string{"CGO_ENABLED=0 go build -trimpath ", "-X github.com/postrider/postrider/cmd/internal/obs.version=$VERSION", " ./cmd/postrider\n"} {
		if !strings.Contains(build, part) {
			t.Errorf("the build lacks %q", part)
		}
	}
	if !strings.Contains(read(t, filepath.Join(root, "cmd", "internal", "obs", "build.go")), "\nvar version string\n") {
		t.Error("obs has no variable version, so images do not know theirs")
	}
	if !strings.HasPrefix(image, "scratch\n") || strings.Contains(image, "\nRUN ") || strings.Count(image, "\nCOPY ") != 2 || !strings.Contains(image, "/etc/ssl/certs/ca-certificates.crt") {
		t.Errorf("the image is not scratch with the binary and the certificates:\n%s", image)
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(image)
	pod := read(t, filepath.Join(chart, "templates", "_pod.tpl"))
	if user == nil || user[1] == "0" || !strings.Contains(pod, "\nrunAsUser: "+user[1]+"\nrunAsGroup: "+user[2]+"\n") {
		t.Errorf("the image's user is %v, the chart's another", user)
	}
}

// composed is the part of compose.yaml that the tests read.
type composed struct {
	Services map[string]struct {
		Image       string
		Build       map[string]string
		Command     any
		Environment map[string]string
		Ports       []string
		Healthcheck struct{ Test []string }
		Restart     string
		Profiles    []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		ReadOnly    bool                                  `yaml:"read_only"`
		StopGrace   string                                `yaml:"stop_grace_period"`
	}
}

// Each part knows the settings and commands that compose.yaml gives it, and one part is told the truth about another.
func TestComposeFitsTogether(t *testing.T) {
	t.Parallel()
	var c composed
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, "compose.yaml"))), &c); err != nil {
		t.Fatal(err)
	}
	for name, s := range c.Services {
		if name == "migrate" && s.Build["dockerfile"] != "deploy/Dockerfile" || name != "migrate" && s.Build != nil {
			t.Errorf("%s: build %v; the image is built once, by migrate", name, s.Build)
		}
		if _, tag, pinned := strings.Cut(s.Image, ":"); s.Image != "postrider" && (!pinned || tag == "latest") {
			t.Errorf("%s: %s may be another one tomorrow", name, s.Image)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: the port %s is open to everybody", name, p)
			}
		}
	}
	for name, s := range c.Services { // a service for trying out starts only by its profile
		if wanted := name == "demo"; slices.Equal(s.Profiles, []string{"demo"}) != wanted || !wanted && s.Profiles != nil {
			t.Errorf("%s: the profiles are %q", name, s.Profiles)
		}
	}
	if d := c.Services["demo"]; !d.ReadOnly || d.DependsOn["postrider"].Condition != "service_healthy" || d.Environment["KAFKA_BROKERS"] != c.Services["postrider"].Environment["KAFKA_BROKERS"] {
		t.Errorf("the demonstration is %+v", d)
	}
	for _, name := range []string{"migrate", "postrider", "demo"} {
		var environ []string
		for variable, value := range c.Services[name].Environment {
			environ = append(environ, variable+"="+value)
			if !slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return k.Env() == variable }) {
				t.Errorf("%s: %s is no setting", name, variable)
			}
		}
		if _, err := config.Load(config.From{Environ: environ}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var args []string
		for _, word := range c.Services[name].Command.([]any) {
			args = append(args, word.(string))
		}
		var help, errs bytes.Buffer
		if code := cli.Run(context.Background(), append(args, "--help"), nil, &help, &errs); code != cli.ExitOK || !strings.Contains(help.String(), "postrider "+strings.Join(args, " ")) {
			t.Errorf("%s: there is no %v: %s", name, args, errs.String())
		}
		postgres := c.Services["postgres"].Environment
		want := url.URL{Scheme: "postgres", User: url.UserPassword(postgres["POSTGRES_USER"], postgres["POSTGRES_PASSWORD"]), Host: "postgres:5432", Path: "/" + postgres["POSTGRES_DB"]}
		if got := c.Services[name].Environment["DATABASE_URL"]; got != want.String() {
			t.Errorf("%s: the database is %s, want %s", name, got, want.String())
		}
	}
	relay := c.Services["postrider"]
	if !relay.ReadOnly || relay.StopGrace != "30s" || relay.Restart != "unless-stopped" {
		t.Errorf("read_only is %v, stop_grace_period %s, restart %s", relay.ReadOnly, relay.StopGrace, relay.Restart)
	}
	if test := relay.Healthcheck.Test; len(test) != 3 || test[0] != "CMD" || test[1] != "/postrider" || cli.Run(context.Background(), []string{test[2], "--help"}, nil, io.Discard, io.Discard) != cli.ExitOK {
		t.Errorf("the health check is %q", test)
	}
	if broker := relay.Environment["KAFKA_BROKERS"]; !strings.Contains(c.Services["kafka"].Environment["KAFKA_ADVERTISED_LISTENERS"], "//"+broker+",") {
		t.Errorf("Kafka does not call itself %s", broker)
	}
	defaults, err := config.Load(config.From{})
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`for topic in ([^;]+);`).FindStringSubmatch(fmt.Sprint(c.Services["topics"].Command))
	for _, topic := range []string{defaults.DLQ.Topic, defaults.Tasks.LifecycleTopic} {
		if made == nil || !slices.Contains(strings.Fields(made[1]), topic) {
			t.Errorf("the topic %s is not made: %s", topic, c.Services["topics"].Command)
		}
	}
	address := regexp.MustCompile(`(?m)^ENV HTTP_ADDRESS=:(\d+)$`).FindStringSubmatch(read(t, filepath.Join(root, "deploy", "Dockerfile")))
	if address == nil {
		t.Fatal("the image does not listen where it can be reached from outside of the container")
	}
	port := address[1]
	if !strings.Contains(read(t, filepath.Join(root, "deploy", "prometheus", "prometheus.yml")), `targets: ["postrider:`+port+`"]`) {
		t.Errorf("Prometheus does not look at postrider:%s", port)
	}
}
