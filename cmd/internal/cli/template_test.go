package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/task"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// written puts files into a directory of the test and returns it.
func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const orderTemplate = `
name: order
namespace_name: shop
version: 1.0.0
description: "An order\e[2J"
lifecycle:
  max_pending_minutes: 7
  staleness_action: error
steps:
  - {name: pay, handler: Bank, max_retries: 2}
  - {name: send, handler: {callable: Post}, dependencies: [pay]}
max_retries: 3
events: {topic: shop.events}
start_event: {topic: shop.orders, type: placed}
environments:
  staging: {lifecycle: {max_pending_minutes: 1}}
`

func TestTemplateCommands(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	contains(t, succeed(t, db, "template", "list"), "No template fits", "--shipped")
	contains(t, succeed(t, db, "template", "namespace"), "no namespaces")
	for _, what := range []string{"list", "namespace"} {
		if empty := decode[api.List[any]](t, succeed(t, db, "template", what, "-o", "json")); empty.Items == nil || len(empty.Items) != 0 || empty.Next != nil {
			t.Errorf("an empty %s is %+v", what, empty)
		}
	}

	shipped := succeed(t, db, "template", "apply", "--shipped")
	contains(t, shipped, "payments/payment_processing@2.0.0 is there now", "protocols/protocol@1.0.0", "default/workflow@1.0.0", "reporting/batch_report@1.0.0")
	contains(t, succeed(t, db, "template", "apply", "--shipped"), "payments/payment_processing@2.0.0 is there already")
	contains(t, succeed(t, db, "template", "show", "payment_processing"), "30 min (template)", "goes to error, and an investigation is opened", "charge_card", "CardCharger", "validate_payment", "20 min (template)")
	contains(t, succeed(t, db, "template", "show", "protocols/protocol@1.0.0"), "PROTOCOL_UPLOADED to protocols", "stays where it is, and an investigation is opened", "pending_review", "10080 min (template)", "Tries of an event")

	dir := written(t, map[string]string{"order.yaml": orderTemplate, "deep/er/other.json": `{"name": "other", "namespace_name": "shop", "version": "1.0.0"}`, "README.md": "no: template: this"})
	contains(t, succeed(t, db, "template", "apply", dir), "shop/order@1.0.0 is there now", "shop/other@1.0.0 is there now")
	file := filepath.Join(dir, "order.yaml")
	applied := decode[api.List[actions.AppliedTemplate]](t, succeed(t, db, "template", "apply", file, "--environment", "staging", "-o", "json")).Items
	if len(applied) != 1 || applied[0].Outcome != ledger.AppliedChanged || applied[0].Template != "shop/order@1.0.0" || applied[0].UUID == uuid.Nil {
		t.Errorf("applied %+v", applied)
	}

	succeed(t, db, "template", "namespace", "shop", "--lifecycle", filepath.Join(written(t, map[string]string{"l.yaml": "max_waiting_for_retry_minutes: 11\nmax_duration_minutes: 99\n"}), "l.yaml"))
	contains(t, succeed(t, db, "template", "namespace", "shop", "--description", "the shop\x1b[2J"), "max_duration_minutes 99, max_waiting_for_retry_minutes 11", `the shop\x1b[2J`)
	contains(t, succeed(t, db, "template", "namespace"), "payments", "protocols", "shop")
	spaces := decode[api.List[ledger.Namespace]](t, succeed(t, db, "template", "namespace", "shop", "-o", "json")).Items
	if len(spaces) != 1 || spaces[0].Name != "shop" || !strings.Contains(string(spaces[0].Lifecycle), "99") {
		t.Errorf("namespaces %+v", spaces)
	}

	shown := succeed(t, db, "template", "show", "shop/order")
	contains(t, shown, `An order\x1b[2J`, "99 min (namespace)", "11 min (namespace)", "1 min (template)", "the default", "goes to error, and no investigation is opened",
		"Bank", `{"callable":"Post"}`, "staging", "shop.events", "placed to shop.orders", "pending", "initializing, error, cancelled")
	whole := decode[ledger.Template](t, succeed(t, db, "template", "show", "shop/order", "-o", "json"))
	if back, err := task.Parse("shown", whole.Configuration); err != nil || back.String() != "shop/order@1.0.0" || whole.Machine != task.BuiltinName {
		t.Errorf("shown %+v, %v", whole, err)
	}
	contains(t, succeed(t, db, "template", "list", "--namespace", "shop"), "order", "other", "built-in", "max_pending_minutes 1, staleness_action error")
	if listed := decode[api.List[ledger.Template]](t, succeed(t, db, "template", "list", "-o", "json")).Items; len(listed) != 6 {
		t.Errorf("%d templates are listed", len(listed))
	}
	contains(t, succeed(t, db, "template", "list"), "protocol", "own")

	// What came past the checks is shown as far as it goes.
	if _, err := db.Conn(t).Exec(t.Context(), `update postrider.tasker_named_tasks set configuration = '{"stepz": []}' where name = 'other'`); err != nil {
		t.Fatal(err)
	}
	contains(t, succeed(t, db, "template", "show", "other"), "It is not valid", "unknown key; the nearest key is steps", "waiting_for_dependencies")
}

func TestTemplateApplyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	environ := []string{"DATABASE_URL=" + db.URL}
	const machine = "name: b\nnamespace_name: n\nversion: 1.0.0\nstates: [{name: begin, kind: initial}, {name: %END%, kind: terminal}]\ntransitions: [{from: begin, to: [%END%]}]\n"
	succeed(t, db, "template", "apply", written(t, map[string]string{"b.yaml": strings.ReplaceAll(machine, "%END%", "end")}))
	if _, err := db.Conn(t).Exec(t.Context(), `select postrider.create_task('n', 'b')`); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"one is refused": {map[string]string{"a.yaml": "name: a\nnamespace_name: n\nversion: 1.0.0\n", "b.yaml": strings.ReplaceAll(machine, "%END%", "done")},
			[]string{"nothing was applied", "template n/b@1.0.0 has tasks", "raise the version"}},
		"one is invalid": {map[string]string{"a.yaml": "name: a\nnamespace_name: n\nversion: 1.0.0\n", "b.yaml": "name: b\nversion: 1\n", "c.yml": "nam: c\n"},
			[]string{"nothing was applied", "b.yaml:1: namespace_name: is missing", "b.yaml:2: version", "c.yml:1: nam: unknown key"}},
		"one is there twice": {map[string]string{"a.yaml": "name: a\nnamespace_name: n\nversion: 1.0.0\n", "c/a.yaml": "name: a\nnamespace_name: n\nversion: 1.0.0\n"},
			[]string{"nothing was applied", "n/a@1.0.0 is in", "a.yaml, too"}},
	} {
		r := postrider(t, environ, "template", "apply", written(t, c.files))
		if r.code != ExitFailure || r.stdout != "" {
			t.Errorf("%s: exit code %d, %s", name, r.code, r.stdout)
		}
		contains(t, r.stderr, c.want...)
		if listed := decode[api.List[ledger.Template]](t, succeed(t, db, "template", "list", "-o", "json")).Items; len(listed) != 1 {
			t.Errorf("%s: %d templates are there", name, len(listed))
		}
	}
}

func TestTemplateValidateNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	good := written(t, map[string]string{"order.yaml": orderTemplate})
	r := postrider(t, nil, "template", "validate", good)
	if r.code != ExitOK {
		t.Fatalf("exit code %d, %s", r.code, r.stderr)
	}
	contains(t, r.stdout, "order.yaml: template shop/order@1.0.0 is valid.")

	bad := written(t, map[string]string{"order.yaml": strings.Replace(orderTemplate, "max_pending_minutes: 7", "max_pendign_minutes: 7", 1)})
	r = postrider(t, nil, "template", "validate", good, bad)
	if r.code != ExitFailure || r.stdout != "" {
		t.Errorf("exit code %d, %s", r.code, r.stdout)
	}
	contains(t, r.stderr, "order.yaml:7: lifecycle.max_pendign_minutes: unknown state pendign; the nearest state is pending")
	r = postrider(t, nil, "template", "validate", bad, "-o", "json")
	checked := decode[api.List[api.ValidatedTemplate]](t, r.stdout).Items
	if r.code != ExitFailure || len(checked) != 1 || len(checked[0].Problems) != 1 || checked[0].Problems[0].Line != 7 || checked[0].Template != nil {
		t.Errorf("exit code %d, %+v", r.code, checked)
	}

	example := postrider(t, nil, "template", "example")
	r = postrider(t, nil, "template", "validate", written(t, map[string]string{"example.yaml": example.stdout}), "-o", "json")
	if r.code != ExitOK {
		t.Errorf("the example is not valid: %s", r.stderr)
	}
	contains(t, r.stdout, `"template": "shop/order_fulfilment@1.2.0"`, `"problems": []`)
}

func TestTemplateMistakes(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	dir := written(t, map[string]string{"order.yaml": orderTemplate, "l.yaml": "max_minutes: 5\n", "s.yaml": "max_waiting_for_retries_minutes: 5\n", "none/x.txt": ""})
	order := filepath.Join(dir, "order.yaml")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no files":              {[]string{"template", "apply"}, ExitUsage, "--shipped"},
		"both":                  {[]string{"template", "apply", "--shipped", order}, ExitUsage, "not both"},
		"no such file":          {[]string{"template", "apply", "/nowhere.yaml"}, ExitUsage, "/nowhere.yaml"},
		"no template there":     {[]string{"template", "validate", filepath.Join(dir, "none")}, ExitUsage, "there is no .yaml"},
		"no such environment":   {[]string{"template", "apply", order, "--environment", "prod"}, ExitUsage, `--environment is "prod"`},
		"nothing to validate":   {[]string{"template", "validate"}, ExitUsage, "name the files"},
		"no such template":      {[]string{"template", "show", "none@1.0.0"}, ExitFailure, "template none@1.0.0: not found; postrider template list"},
		"no such namespace":     {[]string{"template", "namespace", "none"}, ExitFailure, "there is no namespace none"},
		"a nameless lifecycle":  {[]string{"template", "namespace", "--description", "x"}, ExitUsage, "name the namespace"},
		"a bad lifecycle":       {[]string{"template", "namespace", "n", "--lifecycle", filepath.Join(dir, "l.yaml")}, ExitFailure, "l.yaml:1: max_minutes: unknown key"},
		"a limit of no state":   {[]string{"template", "namespace", "n", "--lifecycle", filepath.Join(dir, "s.yaml")}, ExitFailure, "lifecycle.max_waiting_for_retries_minutes: unknown state"},
		"no lifecycle":          {[]string{"template", "namespace", "n", "--lifecycle", "/nowhere.yaml"}, ExitUsage, "/nowhere.yaml"},
		"two namespaces":        {[]string{"template", "namespace", "a", "b"}, ExitUsage, "takes [NAME], but was given 2 arguments"},
		"a bad namespace":       {[]string{"template", "namespace", "a b", "--description", "x"}, ExitFailure, "letters, digits"},
		"an unknown subcommand": {[]string{"template", "aply"}, ExitUsage, "no command \"aply\""},
	} {
		r := postrider(t, []string{"DATABASE_URL=" + db.URL}, c.args...)
		if r.code != c.code || r.stdout != "" {
			t.Errorf("%s: exit code %d, %q, %s", name, r.code, r.stdout, r.stderr)
		}
		contains(t, r.stderr, c.want)
	}
}
