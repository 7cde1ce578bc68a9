// Package archtest checks the shape of the source tree: which room may import which, and how long a
// file may be. DESIGN.md says why.
package archtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/postrider/postrider"

// maxLines is the length at which a file holds more than one idea.
const maxLines = 500

// rooms lists, from the ground up, what each room may import of this module and which clients of the
// outside it may touch. The first prefix that fits a package is its room. Test code may use what it
// needs; it is not checked here.
var rooms = []struct {
	prefix  string
	imports []string // other rooms; * is all
	clients []string // among the guarded packages
}{
	{"message/dialect", []string{"message"}, nil},
	{"message", nil, nil},
	{"retry", nil, nil},
	{"outbox", []string{"message"}, []string{"github.com/jackc/pgx"}}, // Enqueue takes a pgx.Tx
	{"consumer/inbox", []string{"consumer", "message", "retry", "internal/loop"}, []string{"github.com/jackc/pgx"}},
	{"consumer/kafka", []string{"consumer", "message", "internal/kgolog", "internal/loop"}, []string{"github.com/twmb/franz-go"}},
	{"consumer", []string{"message", "message/dialect", "internal/tracecontext", "internal/loop"}, nil},
	{"outboxsync", []string{"message", "retry", "internal/relay", "internal/relay/kafka", "internal/relay/postgres", "internal/dlq", "internal/dlq/postgres", "internal/dlqstats"},
		[]string{"github.com/jackc/pgx", "github.com/twmb/franz-go"}},
	{"internal/tracecontext", []string{"message"}, nil},
	{"internal/loop", nil, nil},
	{"internal/nearest", nil, nil},
	{"internal/yamldoc", nil, []string{"go.yaml.in/yaml"}},
	{"internal/kgolog", nil, []string{"github.com/twmb/franz-go"}},
	{"internal/pgserver", nil, []string{"github.com/jackc/pgx", "github.com/fergusstrange"}},
	{"internal/pooler", nil, []string{"github.com/jackc/pgx"}},
	{"internal/migrations", []string{"internal/loop"}, []string{"github.com/jackc/pgx"}},
	{"internal/wire", []string{"message", "internal/tracecontext"}, nil},
	{"internal/relay/relaytest", []string{"internal/relay", "message", "retry", "internal/relay/postgres", "internal/relay/kafka", "internal/testenv/history"}, nil},
	{"internal/relay/postgres", []string{"internal/relay", "internal/pooler", "message", "retry", "internal/loop"}, []string{"github.com/jackc/pgx"}},
	{"internal/relay/kafka", []string{"internal/relay", "internal/kgolog", "message", "internal/loop"}, []string{"github.com/twmb/franz-go"}},
	{"internal/relay", []string{"message", "retry", "internal/tracecontext", "internal/loop", "internal/wire"}, nil},
	{"internal/dlq/dlqtest", []string{"internal/dlq", "message"}, nil},
	{"internal/dlq/postgres", []string{"internal/dlq", "message", "internal/tracecontext"}, []string{"github.com/jackc/pgx"}},
	{"internal/dlq/kafka", []string{"internal/dlq", "internal/kgolog", "internal/loop", "message"}, []string{"github.com/twmb/franz-go"}},
	{"internal/dlq", []string{"message", "message/dialect", "internal/tracecontext", "internal/loop"}, nil},
	{"internal/dlqstats", []string{"internal/dlq", "internal/relay"}, nil},
	{"internal/replay/kafka", []string{"internal/replay", "internal/dlq", "internal/dlq/kafka", "internal/kgolog", "message"}, []string{"github.com/twmb/franz-go"}},
	{"internal/replay", []string{"internal/dlq", "internal/relay", "message", "internal/tracecontext", "internal/loop"}, nil},
	{"internal/tasks/task", []string{"message", "internal/nearest", "internal/yamldoc"}, []string{"go.yaml.in/yaml"}},
	{"internal/tasks/ledgertest", []string{"internal/tasks/task", "internal/tasks/ledger", "internal/tasks/postgres"}, []string{"github.com/jackc/pgx"}},
	{"internal/tasks/postgres", []string{"internal/tasks/task", "internal/tasks/ledger"}, []string{"github.com/jackc/pgx"}},
	{"internal/tasks/ledger", []string{"internal/tasks/task", "internal/loop"}, nil},
	{"internal/testenv/history", nil, nil}, // shares nothing with the engine that it judges
	{"internal/testenv", []string{"internal/migrations", "internal/pgserver", "internal/loop"},
		[]string{"github.com/jackc/pgx", "github.com/twmb/franz-go", "github.com/testcontainers"}},
	{"examples/stage", []string{"internal/testenv", "consumer", "message"}, []string{"github.com/jackc/pgx", "github.com/twmb/franz-go"}},
	{"examples", []string{"consumer", "consumer/inbox", "consumer/kafka"}, []string{"github.com/jackc/pgx", "github.com/twmb/franz-go"}}, // as other people's programs
	{"cmd/internal/tracing", []string{"cmd", "message", "internal/tracecontext"}, []string{"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", // libraries know the API alone
		"github.com/exaring", "github.com/twmb/franz-go", "github.com/jackc/pgx"}},
	{"cmd/internal/mcp", []string{"*"}, []string{"github.com/modelcontextprotocol"}},
	{"cmd/internal/oidclogin", []string{"*"}, []string{"github.com/coreos/go-oidc", "golang.org/x/oauth2"}},
	{"cmd/internal/kafkaauth", []string{"*"}, []string{"github.com/twmb/franz-go", "github.com/aws"}},
	{"cmd", []string{"*"}, []string{"github.com/jackc/pgx", "github.com/twmb/franz-go", "go.yaml.in/yaml"}},
}

// guarded are packages that only the rooms named above may import.
var guarded = []string{"github.com/jackc/pgx", "github.com/twmb/franz-go", "github.com/testcontainers", "github.com/fergusstrange", "github.com/modelcontextprotocol",
	"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "github.com/exaring", "github.com/aws", "github.com/coreos/go-oidc", "golang.org/x/oauth2", "go.yaml.in/yaml", "github.com/goccy/go-yaml"}

type pkg struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	pkgs := packages(t)
	if len(pkgs) < 10 {
		t.Fatalf("go list found only %d packages", len(pkgs))
	}
	for _, p := range pkgs {
		for _, complaint := range complaints(p) {
			t.Error(complaint)
		}
	}
}

// roomOf returns the index of the room a package is in, or -1.
func roomOf(name string) int {
	for i, room := range rooms {
		if within(name, room.prefix) {
			return i
		}
	}
	return -1
}

// complaints returns the faults in the imports of a package.
func complaints(p pkg) []string {
	name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
	mine := roomOf(name)
	if mine < 0 {
		return []string{name + " is in no room: give it one in the list above and in DESIGN.md"}
	}
	room := rooms[mine]
	var out []string
	for _, imported := range p.Imports {
		if inside, ok := strings.CutPrefix(imported, module+"/"); ok {
			other := roomOf(inside)
			if other >= 0 && other != mine && !slices.Contains(room.imports, rooms[other].prefix) && !slices.Contains(room.imports, "*") {
				out = append(out, name+" imports "+inside+"; from "+room.prefix+" it may import only "+strings.Join(room.imports, ", "))
			}
		} else if anyFits(imported, guarded) && !anyFits(imported, room.clients) {
			out = append(out, name+" imports "+imported+", a client that belongs to other rooms")
		}
	}
	return out
}

func anyFits(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if within(name, p) {
			return true
		}
	}
	return false
}

func within(name, prefix string) bool {
	return name == prefix || strings.HasPrefix(name, prefix+"/")
}

// The check itself must be able to fail.
func TestComplaints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, imported string
		wrong          bool
	}{
		{"internal/relay", module + "/message", false},
		{"internal/relay", module + "/internal/relay/postgres", true},
		{"internal/relay", "github.com/jackc/pgx/v5", true},
		{"outbox", module + "/internal/relay", true},
		{"internal/relay/kafka", "github.com/jackc/pgx/v5", true},
		{"internal/dlq", module + "/cmd/internal/app", true},
		{"internal/dlq/postgres", module + "/internal/relay/postgres", true},
		{"internal/testenv/history", module + "/internal/relay", true},
		{"consumer", module + "/outbox", true},
		{"consumer", "go.opentelemetry.io/otel/sdk/trace", true},
		{"consumer", "go.opentelemetry.io/otel/trace", false},
		{"internal/relay/postgres", "github.com/exaring/otelpgx", true},
		{"cmd/internal/tracing", "github.com/exaring/otelpgx", false},
		{"cmd/internal/cli", "github.com/aws/aws-sdk-go-v2/config", true},
		{"cmd/internal/config", "github.com/goccy/go-yaml", true}, // one library for YAML
		{"cmd/internal/app", module + "/internal/dlq/kafka", false},
		{"newroom", "fmt", true},
	} {
		got := complaints(pkg{ImportPath: module + "/" + c.name, Imports: []string{c.imported}})
		if (len(got) > 0) != c.wrong {
			t.Errorf("%s importing %s: complaints %q", c.name, c.imported, got)
		}
	}
}

func TestFilesHoldOneIdea(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, lines := 0, bufio.NewScanner(f)
		for lines.Scan() {
			n++
		}
		if err := lines.Err(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if n > maxLines {
			t.Errorf("%s has %d lines, more than %d: it holds more than one idea", path, n, maxLines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNothingIsSkippedInSilence: `go test` does not show what a package skipped that passes.
func TestNothingIsSkippedInSilence(t *testing.T) {
	t.Parallel()
	skip := regexp.MustCompile(`\b(t|b|f|r|s|l|TB)\.Skip(f|Now)?\(|\btesting\.Short\(`)
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, filepath.Join("internal", "testenv", "logtest", "nottested.go")) {
			return err
		}
		source, err := os.ReadFile(path)
		if err == nil && skip.Match(source) {
			t.Errorf("%s skips a test; use logtest.NotTested, which is said at the end of make test", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNoRoomForLeftovers(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		switch base := filepath.Base(p.ImportPath); base {
		case "util", "utils", "common", "helpers", "misc", "shared":
			t.Errorf("%s: name the package after what it is about", p.ImportPath)
		}
	}
}
