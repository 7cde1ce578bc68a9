package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// result is what one run of the program gave.
type result struct {
	code           int
	stdout, stderr string
}

// postrider runs the program in this process, without an environment but for the given entries.
func postrider(t *testing.T, environ []string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := Run(t.Context(), args, environ, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// succeed runs a command on a database and returns its output.
func succeed(t *testing.T, db *pgtest.DB, args ...string) string {
	t.Helper()
	r := postrider(t, []string{"DATABASE_URL=" + db.URL}, args...)
	if r.code != ExitOK || r.stderr != "" {
		t.Fatalf("%v: exit code %d, %s", args, r.code, r.stderr)
	}
	return r.stdout
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	const nowhere = "postgres://u:s3ntinel@127.0.0.1:1/d"
	empty, migrated := pgtest.NewEmpty(t).URL, pgtest.New(t).URL
	for name, c := range map[string]struct {
		args    []string
		environ []string
		code    int
		stderr  []string
	}{
		"help":                 {args: []string{"--help"}, code: ExitOK},
		"nothing":              {args: nil, code: ExitOK},
		"group":                {args: []string{"migrate"}, code: ExitOK},
		"unknown command":      {args: []string{"serv"}, code: ExitUsage, stderr: []string{`no command "serv"`, "serve"}},
		"unknown subcommand":   {args: []string{"dlq", "lst"}, code: ExitUsage, stderr: []string{`postrider dlq has no command "lst"`, "groups, list, purge, release, requeue, resolve, show, stats"}},
		"unknown flag":         {args: []string{"serve", "--foo"}, code: ExitUsage, stderr: []string{"--foo"}},
		"too many arguments":   {args: []string{"migrate", "up", "now"}, code: ExitUsage, stderr: []string{`takes no arguments, but was given "now"`}},
		"missing argument":     {args: []string{"dlq", "show"}, code: ExitUsage, stderr: []string{"takes ID"}},
		"no id":                {args: []string{"dlq", "show", "x\x1b[2J", "--database-url", nowhere}, code: ExitUsage, stderr: []string{`"x\x1b[2J" is not the id`}},
		"no database":          {args: []string{"outbox", "status"}, code: ExitUsage, stderr: []string{"database.url is not set", "DATABASE_URL"}},
		"no brokers":           {args: []string{"serve", "--database-url", nowhere}, code: ExitUsage, stderr: []string{"kafka.brokers is not set"}},
		"bad brokers":          {args: []string{"serve", "--database-url", nowhere, "--kafka-brokers", "localhost"}, code: ExitUsage, stderr: []string{"kafka.brokers", `"localhost"`, "host:port"}},
		"bad setting":          {args: []string{"serve"}, environ: []string{"OUTBOX_DISPATCHES=many"}, code: ExitUsage, stderr: []string{"OUTBOX_DISPATCHES", `"many"`}},
		"bad flag":             {args: []string{"serve", "--outbox-dispatches=0"}, code: ExitUsage, stderr: []string{"outbox.dispatches from flag --outbox-dispatches"}},
		"bad address":          {args: []string{"dev", "--http", "8080"}, code: ExitUsage, stderr: []string{`"8080"`, "host:port"}},
		"bad roles":            {args: []string{"serve", "--roles", "relay,api"}, code: ExitUsage, stderr: []string{`--roles: "api" is not a role`}},
		"bad file":             {args: []string{"outbox", "status", "--config", "/nowhere.yaml"}, code: ExitUsage, stderr: []string{"/nowhere.yaml"}},
		"bad output":           {args: []string{"outbox", "status", "-o", "xml", "--database-url", nowhere}, code: ExitUsage, stderr: []string{`-o is "xml"`}},
		"bad status":           {args: []string{"dlq", "list", "--status", "open", "--database-url", nowhere}, code: ExitUsage, stderr: []string{`--status is "open"`, "pending"}},
		"bad limit":            {args: []string{"dlq", "list", "--limit", "0", "--database-url", nowhere}, code: ExitUsage, stderr: []string{"--limit is 0"}},
		"dev with a database":  {args: []string{"dev", "--database-url", nowhere}, code: ExitUsage, stderr: []string{"leave --database-url out"}},
		"unreachable":          {args: []string{"outbox", "status", "--database-url", nowhere}, code: ExitFailure, stderr: []string{"postgres://u:xxxxx@127.0.0.1:1/d cannot be reached", "check that PostgreSQL runs there"}},
		"unreachable, migrate": {args: []string{"migrate", "up", "--database-url", nowhere}, code: ExitFailure, stderr: []string{"cannot be reached"}},
		"without schema":       {args: []string{"outbox", "status", "--database-url", empty}, code: ExitFailure, stderr: []string{"postrider migrate up"}},
		"list without schema":  {args: []string{"dlq", "list", "--database-url", empty}, code: ExitFailure, stderr: []string{"postrider migrate up"}},
		"serve without schema": {args: []string{"serve", "--database-url", empty, "--kafka-brokers", "127.0.0.1:1"}, code: ExitFailure, stderr: []string{"postrider migrate up", "--migrate"}},
		"validate when behind": {args: []string{"migrate", "validate", "--database-url", empty}, code: ExitFailure, stderr: []string{"postrider migrate up"}},
		"roles without schema": {args: []string{"migrate", "roles", "--apply", "--database-url", empty}, code: ExitFailure, stderr: []string{"postrider migrate up"}},
		"no such entry":        {args: []string{"dlq", "show", "0192aaaa-0000-7000-8000-000000000000", "--database-url", migrated}, code: ExitFailure, stderr: []string{"there is no investigation 0192aaaa-0000-7000-8000-000000000000", "dlq list"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := postrider(t, c.environ, c.args...)
			if r.code != c.code {
				t.Errorf("exit code %d, want %d: %s", r.code, c.code, r.stderr)
			}
			contains(t, r.stderr, c.stderr...)
			if c.code != ExitOK && (!strings.HasPrefix(r.stderr, "postrider: ") || r.stdout != "") {
				t.Errorf("stderr %q, stdout %q", r.stderr, r.stdout)
			}
			if c.code == ExitOK && !strings.Contains(r.stdout, "Usage:") {
				t.Errorf("no help: %q", r.stdout)
			}
			if all := r.stdout + r.stderr; strings.Contains(all, "s3ntinel") || strings.Contains(all, "\x1b") {
				t.Errorf("a password or an escape is shown: %q", all)
			}
		})
	}
}

// A wrong password is refused by the server, and no command shows it.
func TestWrongPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(pgtest.New(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(address.User.Username(), "s3ntinel")
	for _, args := range [][]string{{"outbox", "status"}, {"dlq", "list"}, {"migrate", "status"}, {"serve", "--kafka-brokers", "127.0.0.1:1"}} {
		r := postrider(t, []string{"DATABASE_URL=" + address.String()}, args...)
		if r.code != ExitFailure || strings.Contains(r.stderr, "s3ntinel") {
			t.Errorf("%v: exit code %d, %s", args, r.code, r.stderr)
		}
		contains(t, r.stderr, "check user and password")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	r := postrider(t, nil, "version", "-o", "json")
	if v := decode[map[string]string](t, r.stdout); v["version"] == "" || v["go"] == "" {
		t.Errorf("version %v", v)
	}
	said := postrider(t, nil, "version").stdout
	contains(t, said, "version", "platform")
	if flag := postrider(t, nil, "--version"); flag.code != ExitOK || flag.stdout != said {
		t.Errorf("--version: exit code %d, %q, want %q", flag.code, flag.stdout, said)
	}
}

// Every command says what it is for, and the first help says the exit codes.
func TestHelp(t *testing.T) {
	t.Parallel()
	root := (&commands{}).root()
	contains(t, root.Long, "0 done", "1 failed", "2 wrong")
	queue := root.Commands()
	for len(queue) > 0 {
		cmd := queue[0]
		queue = append(queue[1:], cmd.Commands()...)
		if cmd.Short == "" {
			t.Errorf("%s has no description", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Long) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 {
				t.Errorf("%s: a line of its help has %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		if f := cmd.InheritedFlags(); f.Lookup("config") == nil || f.Lookup("database-url") == nil || f.Lookup("kafka-brokers") == nil {
			t.Errorf("%s lacks a common flag", cmd.CommandPath())
		}
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain, größer, 日本語 🙂": "plain, größer, 日本語 🙂",
		"\x1b[31mred":          `\x1b[31mred`,
		"a\nb\rc\td\x00":       `a\nb\rc\td\x00`,
		"\u009b2J":             `\u009b2J`,
		"user\u202egpj.exe":    `user\u202egpj.exe`,
		"\xff\xfe":             `\xff\xfe`,
		"zero\u200bwidth":      `zero\u200bwidth`,
		"\u2028":               `\u2028`,
		"\U000e0041":           `\U000e0041`,
		"\ufffd":               "\ufffd",
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("\x1b]0;title\x07 \u202e\xc3\x28 🙂 \U000e0041")
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{visible(s), payloadText([]byte(s)), report(fmt.Errorf("%s", s), "postrider")} {
			for _, r := range out {
				if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
					t.Fatalf("%U in %q, from %q", r, out, s)
				}
			}
		}
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if json.Unmarshal(encoded, &before) != nil || json.Unmarshal([]byte(visibleJSON(string(encoded))), &after) != nil || before != after {
			t.Fatalf("visibleJSON changed %q into %q", before, after)
		}
	})
}
