package monitoring

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) {
	kafkatest.Main(kafkatest.RunnerFunc(func() int { return pgtest.Run(buildtest.In(m)) }))
}

// deploy is where rules and dashboards are.
func deploy(parts ...string) string {
	return filepath.Join(append([]string{"..", "..", "..", "deploy"}, parts...)...)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// tool finds a program of Prometheus. Where there is none the test is noted as not tested.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		logtest.NotTested(t, "there is no "+name+"; install the package prometheus, which has promtool too")
	}
	return path
}

// promtool runs it and returns what it said.
func promtool(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool(t, "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// rule is one of the file of rules.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

func readRules(t *testing.T) []rule {
	t.Helper()
	var f ruleFile
	if err := yaml.Unmarshal([]byte(readFile(t, deploy("prometheus", "postrider.rules.yml"))), &f); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range f.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 20 {
		t.Fatalf("only %d rules", len(all))
	}
	return all
}

func alerts(t *testing.T) []rule {
	t.Helper()
	return slices.DeleteFunc(readRules(t), func(r rule) bool { return r.Alert == "" })
}

// freeAddress is an address on loopback that no process listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
