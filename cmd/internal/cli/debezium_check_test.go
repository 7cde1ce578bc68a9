package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/debezium"
	"github.com/postrider/postrider/cmd/internal/debezium/check"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestAComparisonOfNothingFails: the exit code 0 says that records were compared, and are the same.
func TestAComparisonOfNothingFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		progress check.Progress
		says     string
	}{
		{check.Progress{}, "nothing was compared"},
		{check.Progress{Others: 5, Unread: 1}, "nothing was compared"},
		{check.Progress{Compared: 2, Late: 1}, ""},
		{check.Progress{Compared: 2, Differing: 1}, "something differs"},
		{check.Progress{Missing: 1}, "something differs"},
	} {
		if err := judgeProgress(c.progress); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.progress, err)
		}
	}
}

const connectorFile = `name=orders
connector.class=io.debezium.connector.postgresql.PostgresConnector
database.password=sentinel
producer.override.sasl.jaas.config=sentinel
my.own.secret=sentinel
plugin.name=pgoutput
table.include.list=public.outbox
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
value.converter=org.apache.kafka.connect.storage.StringConverter
`

// TestDebeziumCheck: what it prints, its exit codes, and that no secret is in it. A comparison where all is the same is in
// cmd/internal/interop, with a real connector.
func TestDebeziumCheck(t *testing.T) {
	t.Parallel()
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "connector.properties")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	run := func(code int, environ []string, args ...string) string {
		t.Helper()
		r := postrider(t, environ, append([]string{"debezium", "check"}, args...)...)
		if r.code != code || strings.Contains(r.stdout+r.stderr, "sentinel") {
			t.Fatalf("exit code %d, want %d: %s%s", r.code, code, r.stdout, r.stderr)
		}
		return r.stdout + r.stderr
	}
	db := pgtest.NewEmpty(t)
	pgtest.Exec(t, db.Conn(t), `create table outbox (id uuid primary key, aggregatetype text not null, aggregateid text, payload jsonb)`)
	differs := run(ExitFailure, nil, "--connector", file(connectorFile))
	contains(t, differs, "SETTINGS\n", "! key.converter: the converter is the worker's default", "--worker FILE", "✓ transforms.outbox.table.field.event.id = id (default):",
		"- not looked at: my.own.secret\n", "DATABASE\n! database: there is no database", "RECORDS\n- give kafka.brokers", "The connector orders: differs (")
	worker := file("key.converter=org.apache.kafka.connect.storage.StringConverter\n")
	told := run(ExitFailure, nil, "--connector", file(connectorFile), "--worker", worker)
	contains(t, told, "✓ key.converter = org.apache.kafka.connect.storage.StringConverter: the key is the text")
	refused := run(ExitUsage, []string{"DATABASE_URL=" + db.URL}, "--connector", file(connectorFile+"converters=isbn\n"), "--worker", worker)
	contains(t, refused, "✗ converters = isbn: converters of columns change values", "✗ publication: there is no publication dbz_publication here", "These settings do what the connector does:", "      key: string\n",
		"Next: mend what is refused, and run postrider debezium check again\n")
	if strings.Contains(refused, "Help is in") {
		t.Errorf("something that is refused is taken for a mistake of the caller: %s", refused)
	}
	report := decode[check.Report](t, run(ExitUsage, nil, "--connector", file(connectorFile+"converters=isbn\n"), "-o", "json"))
	if report.Verdict != debezium.Refused || report.Connector != "orders" || len(report.Settings) < 30 {
		t.Errorf("%+v", report)
	}

	// Connect's REST API, with the login of the environment.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "sentinel" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"name":"by rest","config":{"connector.class":"` + debezium.Class + `","transforms":"o","transforms.o.type":"` + debezium.RouterClass + `"}}`))
	}))
	t.Cleanup(server.Close)
	contains(t, run(ExitFailure, []string{"CONNECT_USERNAME=ann", "CONNECT_PASSWORD=sentinel"}, "--connector", server.URL+"/connectors/orders"), "The connector by rest: differs")
	contains(t, run(ExitFailure, nil, "--connector", server.URL+"/connectors/orders"), "refuses the login")

	for line, says := range map[string]string{"": "--connector is missing", "--connector x --last 0": "--last is 0", "--connector x -o xml": "-o is", "--connector x y": "takes no arguments"} {
		contains(t, run(ExitUsage, nil, strings.Fields(line)...), says)
	}
	contains(t, run(ExitFailure, nil, "--connector", filepath.Join(t.TempDir(), "none")), "no such file")
	contains(t, run(ExitFailure, nil, "--connector", file("connector.class=io.debezium.connector.mysql.MySqlConnector\n")), "only io.debezium.connector.postgresql")
}
