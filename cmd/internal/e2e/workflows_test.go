package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/tasks/ledgertest"
	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

var (
	// workflowPart is what the page has to be done: a fenced block, or the line that time passes.
	workflowPart = regexp.MustCompile("(?ms)^```(yaml|sql|sh)\n(.*?)^```$|^\\*(\\d+) minutes later\\.\\*")
	// statementAnswer is what the page says that a statement answers.
	statementAnswer = regexp.MustCompile(`(?m);  -- (.*)$`)
	shellName       = regexp.MustCompile(`\$(\w+)`)
	roles           = []string{"postrider_writer", "postrider_operator"}
)

// TestTheWorkflowsOfThePage types docs/tasks-workflows.md into psql, with the rights that it names, beside a running
// serve, and compares what psql answers with what the page says.
func TestTheWorkflowsOfThePage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "tasks-workflows.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n## ")[1:]
	if len(sections) != 7 {
		t.Fatalf("the page has %d workflows", len(sections))
	}
	b := kafkatest.Kfake(t)
	for _, section := range sections {
		title, body, _ := strings.Cut(section, "\n")
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			w := openWorkflow(t, b)
			// Brokers are shared: the page's topic is one of this test alone.
			body = strings.ReplaceAll(body, "'documents'", "'"+w.topic+"'")
			body = strings.ReplaceAll(body, "topic: documents", "topic: "+w.topic)
			answers := 0
			for _, part := range workflowPart.FindAllStringSubmatch(body, -1) {
				switch kind, block := part[1], part[2]; kind {
				case "yaml":
					w.apply(block)
				case "sh":
					w.shell(block)
				case "sql":
					answers += w.sql(block)
				default:
					w.later(part[3])
				}
			}
			if answers < 3 {
				t.Errorf("the workflow compares %d answers", answers)
			}
		})
	}
}

// workflow is a database with tasks, a serve that looks after them, and one psql.
type workflow struct {
	t       *testing.T
	db      *pgtest.DB
	program string
	topic   string
	logins  map[string]string // addresses of the database by role
	env     []string
	in      io.Writer
	out     *logtest.Buffer // what psql printed, errors too
	ended   chan struct{}   // closed when psql ended
	asked   int             // how many blocks psql was given
}

func openWorkflow(t *testing.T, b *kafkatest.Broker) *workflow {
	t.Helper()
	w := &workflow{t: t, db: pgtest.New(t), program: buildtest.Program(t, "cmd/postrider"), topic: b.Topic(t, 1, nil), logins: map[string]string{},
		out: &logtest.Buffer{}, ended: make(chan struct{})}
	if err := migrations.ApplyRoles(t.Context(), w.db.Conn(t)); err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		w.logins[role], _ = w.db.Login(t, role)
	}
	dlq := b.Topic(t, 1, nil)
	w.env = append(os.Environ(), "DATABASE_URL="+w.db.URL, "KAFKA_BROKERS="+strings.Join(b.Addrs, ","), "DLQ_TOPIC="+dlq, "DLQ_GROUP="+dlq,
		"TASKS_LIFECYCLE_TOPIC="+b.Topic(t, 1, nil), "STALENESS_DETECTION_INTERVAL_SECONDS=1",
		"PATH="+filepath.Dir(w.program)+string(os.PathListSeparator)+os.Getenv("PATH"))

	serve := exec.Command(w.program, "serve", "--http", "127.0.0.1:0")
	var log logtest.Buffer
	serve.Env, serve.Stderr = w.env, &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		if err := serve.Wait(); err != nil {
			t.Errorf("serve did not stop cleanly: %v\n%s", err, &log)
		}
	})

	// A task that fails at once has its dead letter in the topic that serve writes into the database when it starts.
	pgtest.WaitFor(t, w.db.Pool(t), `select last_pass_at is not null from postrider.tasker_detector`)

	// It ends with its input, before the logins are dropped.
	psql := exec.CommandContext(t.Context(), psqlPath(t), w.db.URL, "-qAtX", "-v", "VERBOSITY=terse") // an error is one line
	psql.Stdout, psql.Stderr = w.out, w.out
	stdin, err := psql.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := psql.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.ended)
		_ = psql.Wait()
	}()
	t.Cleanup(func() {
		_ = stdin.Close()
		<-w.ended
	})
	w.in = stdin
	return w
}

// types gives psql a block, and returns the lines that it printed.
func (w *workflow) types(block string) []string {
	w.t.Helper()
	w.asked++
	before, end := len(w.out.String()), fmt.Sprintf("-- end of block %d", w.asked)
	if _, err := fmt.Fprintf(w.in, "%s\n\\echo '%s'\n", block, end); err != nil {
		w.t.Fatalf("psql: %v\n%s", err, w.out)
	}
	deadline := time.After(3 * time.Minute)
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		printed, _, ended := strings.Cut(w.out.String()[before:], end+"\n")
		if ended {
			return slices.DeleteFunc(strings.Split(printed, "\n"), func(line string) bool { return line == "" })
		}
		select {
		case <-tick.C:
		case <-w.ended:
			w.t.Fatalf("psql ended:\n%s", w.out)
		case <-deadline:
			w.t.Fatalf("psql does not answer to\n%s\n%s", block, w.out)
		}
	}
}

// sql runs a block with the role in its first line, and returns how many answers it compared. If it only reads, it waits
// for the answers of the page: serve and the relay work beside it.
func (w *workflow) sql(block string) int {
	w.t.Helper()
	role := strings.TrimPrefix(strings.SplitN(block, "\n", 2)[0], "-- ")
	if !slices.Contains(roles, role) {
		w.t.Fatalf("the block does not begin with its role:\n%s", block)
	}
	var want []string
	for _, m := range statementAnswer.FindAllStringSubmatch(block, -1) {
		want = append(want, m[1])
	}
	if got := w.types(`\c ` + w.logins[role]); len(got) > 0 {
		w.t.Fatalf("psql cannot connect as %s: %q", role, got)
	}
	reads := !strings.Contains(block, "begin;") && role == "postrider_operator"
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		got := w.types(block)
		if slices.EqualFunc(got, want, answers) {
			return len(want)
		}
		if !reads || time.Now().After(deadline) {
			w.t.Fatalf("psql answers\n  %s\nthe page says\n  %s\nto\n%s", strings.Join(got, "\n  "), strings.Join(want, "\n  "), block)
		}
	}
}

// answers tells whether a line of psql is what the page says: of an error, that it has its text.
func answers(got, want string) bool {
	if problem, ok := strings.CutPrefix(want, "ERROR: "); ok {
		return strings.HasPrefix(got, "ERROR: ") && strings.Contains(got, problem)
	}
	return got == want
}

// apply puts a template in.
func (w *workflow) apply(template string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "template.yaml")
	if err := os.WriteFile(file, []byte(template), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.run(exec.CommandContext(w.t.Context(), w.program, "template", "apply", file))
}

// shell runs a block with sh; $name is the variable of psql.
func (w *workflow) shell(block string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "sh", "-ec", block)
	for _, name := range shellName.FindAllStringSubmatch(block, -1) {
		value := w.types(`\echo :` + name[1])
		cmd.Env = append(cmd.Env, name[1]+"="+strings.Join(value, ""))
	}
	w.run(cmd)
}

func (w *workflow) run(cmd *exec.Cmd) {
	w.t.Helper()
	cmd.Env = append(slices.Clip(w.env), cmd.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// later lets minutes pass for the task, and waits until a pass of the detector began after that, and ended.
func (w *workflow) later(minutes string) {
	w.t.Helper()
	n, err := strconv.Atoi(minutes)
	if err != nil {
		w.t.Fatal(err)
	}
	task, err := uuid.Parse(strings.Join(w.types(`\echo :task`), ""))
	if err != nil {
		w.t.Fatal(err)
	}
	pool := w.db.Pool(w.t)
	ledgertest.Age(w.t, pool, task, time.Duration(n)*time.Minute)
	aged := pgtest.Value[time.Time](w.t, pool, `select clock_timestamp()`)
	pgtest.WaitFor(w.t, pool, `select coalesce(last_pass_at - make_interval(secs => last_pass_ms / 1000) > $1, false) from postrider.tasker_detector`, aged)
}
