package e2e

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// pageWalk returns the lines of the fenced block below the heading "A walk" of the page about dead letters.
func pageWalk(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "dead-letters.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## A walk\n")
	_, block, _ := strings.Cut(section, "\n```sh\n")
	block, _, found := strings.Cut(block, "\n```\n")
	lines := strings.Split(block, "\n")
	if !found || len(lines) < 8 || !strings.HasPrefix(lines[0], "bin/postrider dev --demo") {
		t.Fatalf("docs/dead-letters.md has no walk below \"## A walk\": %q", block)
	}
	return lines
}

// shell runs the lines of a walk where the page says that they are typed.
type shell struct {
	t      *testing.T
	dir    string
	env    []string
	before string            // what was exported
	ids    map[string]string // what GROUP, ENTRY and OPERATION stand for, as far as it was shown
}

// run runs one line and returns what it printed.
func (s *shell) run(line string) string {
	s.t.Helper()
	for name, id := range s.ids {
		line = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(line, id)
	}
	cmd := exec.CommandContext(s.t.Context(), "sh", "-c", s.before+"\n"+line)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// learn finds the id that a person would take from an output.
func (s *shell) learn(name, output, pattern string) {
	s.t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(output)
	if found == nil {
		s.t.Fatalf("there is no %s in\n%s", name, output)
	}
	s.ids[name] = found[1]
}

// dev starts the line of the page that runs everything, and returns the address of its database.
func (s *shell) dev(line string) (databaseURL string) {
	s.t.Helper()
	cmd := exec.Command("sh", "-c", "exec "+line)
	cmd.Dir, cmd.Env = s.dir, s.env
	var log logtest.Buffer
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ready, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if url := regexp.MustCompile(`^postrider: ready .*\bdatabase_url=(\S+)`).FindStringSubmatch(lines.Text()); url != nil {
				ready <- url[1]
			}
		}
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // Ctrl-C
		select {
		case <-ended:
			if err := cmd.Wait(); err != nil {
				s.t.Errorf("%s ended with %v\n%s", line, err, &log)
			}
		case <-time.After(3 * time.Minute):
			_ = cmd.Process.Kill()
			s.t.Errorf("%s did not end", line)
		}
	})
	select {
	case databaseURL = <-ready:
	case <-ended:
		s.t.Fatalf("%s ended: %s", line, &log)
	case <-time.After(2 * time.Minute):
		s.t.Fatalf("%s did not become ready", line)
	}
	return databaseURL
}

// await waits until a query returns true.
func await(t *testing.T, conn *pgx.Conn, what, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		var done bool
		if err := conn.QueryRow(ctx, query).Scan(&done); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: it does not come", what)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

const uuidPattern = `([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`

// TestWalkOfThePage types what the page tells a new user to type: start the demo, find a group, read why, mend the
// cause, plan, redrive with a canary, watch it resolve.
func TestWalkOfThePage(t *testing.T) {
	t.Parallel()
	lines := pageWalk(t)
	s := &shell{t: t, dir: t.TempDir(), ids: map[string]string{}}
	s.env = os.Environ()
	if err := os.Mkdir(filepath.Join(s.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(buildtest.Program(t, "cmd/postrider"), filepath.Join(s.dir, "bin", "postrider")); err != nil {
		t.Fatal(err)
	}
	database := s.dev(lines[0])
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	await(t, conn, "enough went wrong", `select count(*) >= 4 from postrider.dlq_entry where error_code = 'INVALID_HEADERS'`)

	seen := map[string]bool{}
	for _, line := range lines[1:] {
		line, comment, _ := strings.Cut(line, "  #")
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "export DATABASE_URL='…'") {
			s.before = strings.Replace(line, "…", database, 1)
			continue
		}
		out := s.run(line)
		step := strings.Join(strings.Fields(line)[:3], " ")
		switch {
		case line == "bin/postrider dlq groups":
			s.learn("GROUP", out, `(?m)^`+uuidPattern+` .*INVALID_HEADERS`)
		case line == "bin/postrider dlq groups GROUP" && s.ids["ENTRY"] == "":
			s.learn("ENTRY", out, `Look at +postrider dlq show `+uuidPattern)
		case line == "bin/postrider dlq show ENTRY":
			for _, want := range []string{"INVALID_HEADERS", "header", "order_placed", `{"priority": 5}`} {
				if !strings.Contains(out, want) {
					t.Errorf("%s does not say %q:\n%s", line, want, out)
				}
			}
		case line == "bin/postrider demo mend":
			// The next urgent order is in order, and what was on its way before has its investigation.
			await(t, conn, "the service is mended", `select exists (select from postrider.outbox_event where headers = '{"priority": "5"}')
				and not exists (select from postrider.outbox_event e where e.headers = '{"priority": 5}'
					and not exists (select from postrider.dlq_entry d where d.subject_id = e.event_id::text))`)
		case strings.HasPrefix(line, "bin/postrider op plan "):
			s.learn("OPERATION", out, `(?m)^Operation +`+uuidPattern)
			if !regexp.MustCompile(`(?m)^Headers +\d+ have some that cannot be read, and are sent with the headers that can be read, and priority$`).MatchString(out) {
				t.Errorf("the plan does not say what becomes of the headers:\n%s", out)
			}
		case strings.HasPrefix(line, "bin/postrider op start "):
			for _, want := range []string{"canary:", "completed:", "0 dead-lettered again"} {
				if !strings.Contains(out, want) {
					t.Errorf("%s does not say %q:\n%s", line, want, out)
				}
			}
		case line == "bin/postrider dlq groups GROUP":
			if !regexp.MustCompile(`(?m)^State +resolved$`).MatchString(out) {
				t.Errorf("after %q the group is not resolved:\n%s", comment, out)
			}
		case line == "bin/postrider audit list":
			for _, want := range []string{"operation.plan", "operation.start", "dlq.requeue", "dlq.resolve"} {
				if !strings.Contains(out, want) {
					t.Errorf("the audit log does not have %s:\n%s", want, out)
				}
			}
		default:
			t.Errorf("the walk has a step that nothing looks at: %s", line)
		}
		seen[step] = true
	}
	for _, step := range []string{"bin/postrider dlq groups", "bin/postrider dlq show", "bin/postrider demo mend", "bin/postrider op plan", "bin/postrider op start", "bin/postrider audit list"} {
		if !seen[step] {
			t.Errorf("the walk has no step %s", step)
		}
	}
	// The database agrees: all of them were sent once, arrived and are closed; nothing of the kind was opened since.
	var items, once, closed, open, mended int
	if err := conn.QueryRow(t.Context(), `select o.items, (select count(distinct r.dlq_entry_uuid) from postrider.dlq_redrive r where r.dlq_operation_uuid = o.dlq_operation_uuid and r.outcome = 'delivered' and r.generation = 1),
		(select count(*) from postrider.dlq_entry e where e.dlq_group_uuid = $2 and e.resolution_status = 'manually_resolved'),
		(select count(*) from postrider.dlq_entry e where e.dlq_group_uuid = $2 and e.resolution_status = 'pending'),
		(select count(*) from postrider.dlq_redrive r join postrider.outbox_event e on e.id = r.outbox_id and e.event_id = r.event_id
			where r.dlq_operation_uuid = o.dlq_operation_uuid and r.edited and e.headers @> '[["priority", "5"]]')
		from postrider.dlq_operation o where o.dlq_operation_uuid = $1`, s.ids["OPERATION"], s.ids["GROUP"]).Scan(&items, &once, &closed, &open, &mended); err != nil {
		t.Fatal(err)
	}
	if items < 4 || once != items || closed != items || open != 0 || mended != items {
		t.Errorf("of %d, %d were delivered, %d are closed, %d are pending, %d had their header", items, once, closed, open, mended)
	}
}
