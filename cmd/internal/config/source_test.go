package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeFiles writes files into a folder of the test, and returns the folder.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestSources(t *testing.T) {
	t.Parallel()
	folder := writeFiles(t, map[string]string{
		"postrider.yaml": `
outbox: {batch_size: 700}
topics:
  - {match: "*", max_attempts: 7}
sources:
  - name: orders
    url: postgres://relay:secret-of-orders@db/orders
    topics:
      allow: ["orders.*", plain]
      rules:
        - {match: orders.slow, max_attempts: 10}
    limits: {connections: 6, batch_size: 100, buffered_mb: 8}
sources_dir: more
`,
		"more/billing.yaml": `{name: billing, url_file: .billing.url, password_file: .billing.password, pooler: transaction, sleep: 5m, notifier: true, topics: {allow: ["*"]}}`,
		// What is no source lies elsewhere, or begins with a dot.
		"more/.billing.url": "postgres://relay@db/billing\n",
		"more/..data/x":     ": not read",
	})
	c, err := Load(From{File: filepath.Join(folder, "postrider.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Sources) != 2 || !c.HasSources() {
		t.Fatalf("%v", c.Sources)
	}
	billing, orders := c.Sources[0], c.Sources[1]
	if billing.Database.URL.Reveal() != "postgres://relay@db/billing" || billing.Database.PasswordFile != filepath.Join(folder, "more/.billing.password") ||
		billing.Database.Pooler != "transaction" || billing.Sleep != 5*time.Minute || !billing.Notifier || billing.Connections != 4 || billing.BufferedMB != 32 {
		t.Errorf("billing is %v %+v", billing, billing.Database)
	}
	for topic, want := range map[string]bool{"orders.a": true, "plain": true, "orders": false, "billing.a": false} {
		if orders.Allows(topic) != want {
			t.Errorf("orders may write to %s: %v", topic, !want)
		}
	}
	own := c.Of(orders)
	if own.Outbox.BatchSize != 100 || own.Database.URL != orders.Database.URL || own.TopicSettings("orders.slow").Retry.MaxAttempts != 10 ||
		own.TopicSettings("orders.a").Retry.MaxAttempts != 7 || own.Outbox.Notifier || !c.Of(billing).Outbox.Notifier || c.Of(billing).Outbox.BatchSize != 700 {
		t.Errorf("the settings of orders are %v", own)
	}
	if shown := c.String() + fmt.Sprintf("%v %+v %#v", orders, c.Sources, orders); strings.Contains(shown, "secret-of-orders") {
		t.Errorf("a password is shown: %s", shown)
	}
	changed := orders
	changed.Database.URL = "postgres://relay:other@db/orders"
	if orders.Same(changed) || !orders.Same(c.Sources[1]) {
		t.Error("a new password is no change, or no change is one")
	}
	if names := strings.Join(c.ChangedBeside(own), " "); names != "database.url outbox.batch_size outbox.notifier topics" {
		t.Errorf("changed: %v", names)
	}
}

// Each mistake is named with its place, and no mistake repeats a password.
func TestSourceMistakes(t *testing.T) {
	t.Parallel()
	good := `url: "postgres://u:pass-word@db/x", topics: {allow: [a]}`
	for line, want := range map[string]string{
		`{name: main, ` + good + `}`:      "main is the source of database.url",
		`{name: Orders, ` + good + `}`:    "name of source 1 of sources must be a small letter",
		`{` + good + `}`:                  "has no name",
		`{name: a, topics: {allow: [a]}}`: "has no url",
		`{name: a, url: "mysql://u:pass-word@db/x", topics: {allow: [a]}}`:                                 "it must begin with postgres://",
		`{name: a, url: "postgres://u:pass-word@db/x"}`:                                                    "names no topics",
		`{name: a, ` + good + `, url_file: x}`:                                                             "both url and url_file",
		`{name: a, url_file: ../x, topics: {allow: [a]}}`:                                                  "leads out of the folder",
		`{name: a, url_file: x, topics: {allow: [a]}}`:                                                     "cannot be read",
		`{name: a, ` + good + `, sleep: 5}`:                                                                "a time with its unit",
		`{name: a, ` + good + `, slep: 5m}`:                                                                "the nearest key is sleep",
		`{name: a, ` + good + `, limits: {connections: 1}}`:                                                "whole number from 3 to 20",
		`{name: a, ` + good + `, limits: {rows: 1}}`:                                                       "unknown key rows in limits",
		`{name: a, url: "postgres://u@db/x", topics: {allow: ["a**"]}}`:                                    "two * in a row",
		`{name: a, url: "postgres://u@db/x", topics: {allow: [a], rules: [{match: a, dlq_topic: b}]}}`:     "dlq_topic is for all sources",
		`{name: a, url: "postgres://u@db/x", topics: {allow: [a], rules: [{match: a, retry_base_ms: 0}]}}`: "retry_base_ms",
		`{name: a, url: "postgres://u@db/x?pool_max_conns=3", topics: {allow: [a]}}`:                       "pool_max_conns",
		"{name: a, " + good + "}\n  - {name: b, " + strings.Replace(good, "u:", "v:", 1) + "}":             "the source b leads to the database of the source a",
		"{name: a, " + good + "}\n  - {name: a, " + good + "}":                                             "the source a is there already",
		`{name: a, ` + good + `, pooler: session}`:                                                         "it must be one of auto, none, transaction",
		`word`: "must be a mapping",
	} {
		folder := writeFiles(t, map[string]string{"f.yaml": "sources:\n  - " + line + "\n"})
		_, err := Load(From{File: filepath.Join(folder, "f.yaml")})
		switch {
		case err == nil:
			t.Errorf("%s is accepted", line)
		case !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "f.yaml:"):
			t.Errorf("%s: %v; want %q", line, err, want)
		case strings.Contains(err.Error(), "pass-word"):
			t.Errorf("%s: the password is in %v", line, err)
		}
	}
	folder := writeFiles(t, map[string]string{"f.yaml": "sources_dir: nowhere\n"})
	if _, err := Load(From{File: filepath.Join(folder, "f.yaml")}); err == nil || !strings.Contains(err.Error(), "nowhere cannot be read") {
		t.Errorf("a folder that is missing: %v", err)
	}
	files := map[string]string{"f.yaml": "sources_dir: more\n"}
	for n := range mostSources + 1 {
		files[fmt.Sprintf("more/%d", n)] = fmt.Sprintf(`{name: s%d, url: "postgres://u@db/x%d", topics: {allow: [a]}}`, n, n)
	}
	folder = writeFiles(t, files)
	if _, err := Load(From{File: filepath.Join(folder, "f.yaml")}); err == nil || !strings.Contains(err.Error(), "there are 501 sources; one installation has at most 500") {
		t.Errorf("too many: %v", err)
	}
	folder = writeFiles(t, map[string]string{"f.yaml": "sources_dir: more\n", "more/half-written": "\n"})
	if _, err := Load(From{File: filepath.Join(folder, "f.yaml")}); err == nil || !strings.Contains(err.Error(), "the file is empty") {
		t.Errorf("an empty file: %v", err)
	}
}

// TestPathsInTheFileAreRelativeToIt, wherever the process was started. Those of the environment are relative to where it was.
func TestPathsInTheFileAreRelativeToIt(t *testing.T) {
	t.Parallel()
	folder := writeFiles(t, map[string]string{"a/postrider.yaml": "database: {url: \"postgres://u@db/x\", password_file: desk.password}\nkafka: {tls_enabled: true, tls_ca_file: ../ca.pem, tls_cert_file: /abs/cert, tls_key_file: key}\n"})
	from := From{File: filepath.Join(folder, "a/postrider.yaml")}
	c, err := Load(from)
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{c.Database.PasswordFile: filepath.Join(folder, "a/desk.password"), c.Kafka.TLSCAFile: filepath.Join(folder, "ca.pem"), c.Kafka.TLSCertFile: "/abs/cert", c.Kafka.TLSKeyFile: filepath.Join(folder, "a/key")} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	from.Environ = []string{"DATABASE_PASSWORD_FILE=own.password"}
	if c, err = Load(from); err != nil || c.Database.PasswordFile != "own.password" {
		t.Errorf("of the environment: %s, %v", c.Database.PasswordFile, err)
	}
}

// TestAPersonsPassword: people use the settings of serve with a login of their own. The password file of the settings is of another
// login. An address without a password still has its password there.
func TestAPersonsPassword(t *testing.T) {
	t.Parallel()
	file := filepath.Join(writeFiles(t, map[string]string{"f.yaml": "database: {url: \"postgres://serve@db/x\", password_file: /serve.password}\n"}), "f.yaml")
	for name, c := range map[string]struct {
		environ []string
		flags   map[string]string
		want    string
	}{
		"the settings alone":           {nil, nil, "/serve.password"},
		"an address without password":  {[]string{"DATABASE_URL=postgres://ann@db/x"}, nil, "/serve.password"},
		"an address with password":     {[]string{"DATABASE_URL=postgres://ann:hers@db/x"}, nil, ""},
		"as a parameter":               {[]string{"DATABASE_URL=postgres://ann@db/x?password=hers"}, nil, ""},
		"in keywords":                  {nil, map[string]string{"database.url": "host=db user=ann password=hers"}, ""},
		"by a flag":                    {nil, map[string]string{"database.url": "postgres://ann:hers@db/x"}, ""},
		"with a password file as well": {[]string{"DATABASE_URL=postgres://ann:hers@db/x", "DATABASE_PASSWORD_FILE=/ann.password"}, nil, "/ann.password"},
	} {
		got, err := Load(From{File: file, Environ: c.environ, Flags: c.flags})
		if err != nil || got.Database.PasswordFile != c.want {
			t.Errorf("%s: the password file is %q, want %q, %v", name, got.Database.PasswordFile, c.want, err)
		}
	}
}
