package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/tasks/ledger"
	"github.com/postrider/postrider/internal/tasks/task"
)

var (
	applyTemplate   = query("apply_template")
	templateTimes   = query("template_times")
	getTemplate     = query("get_template")
	listTemplates   = query("list_templates")
	applyNamespace  = query("apply_namespace")
	listNamespaces  = query("list_namespaces")
	templateMachine = query("template_machine")
)

// ApplyTemplate puts a template that task.Parse returned into the database, with its namespace, and returns its
// uuid. The same again changes nothing. A change of the machine of a version that has tasks is ledger.ErrRefused.
func (l Ledger) ApplyTemplate(ctx context.Context, t *task.Template) (uuid.UUID, ledger.Applied, error) {
	doing := fmt.Sprintf("apply template %s", t)
	configuration, err := t.Encode()
	if err != nil {
		return uuid.Nil, "", err
	}
	var machine []byte
	if m, own := t.Machine(); own {
		if machine, err = json.Marshal(m); err != nil {
			return uuid.Nil, "", fmt.Errorf("%s: %w", doing, err)
		}
	}
	before, err := columns[time.Time](ctx, l.db, doing, templateTimes, t.Namespace, t.Name, t.Version)
	if err != nil {
		return uuid.Nil, "", err
	}
	id, err := one[uuid.UUID](ctx, l.db, doing, applyTemplate, document(configuration), document(machine))
	if err != nil {
		return uuid.Nil, "", err
	}
	after, err := one[time.Time](ctx, l.db, doing, templateTimes, t.Namespace, t.Name, t.Version)
	switch {
	case err != nil:
		return uuid.Nil, "", err
	case len(before) == 0:
		return id, ledger.AppliedNew, nil
	case !before[0].Equal(after):
		return id, ledger.AppliedChanged, nil
	}
	return id, ledger.AppliedSame, nil
}

// Template reads a version of a template, the highest if version is empty. An empty namespace is any that has it.
// One that does not exist is ledger.ErrNotFound, a name that several namespaces have ledger.ErrInvalid.
func (l Ledger) Template(ctx context.Context, namespace, name, version string) (ledger.Template, error) {
	doing := "template " + name
	if namespace != "" {
		doing = "template " + namespace + "/" + name
	}
	if version != "" {
		doing += "@" + version
	}
	// The highest version of each namespace that has it.
	found, err := many[ledger.Template](ctx, l.db, doing, getTemplate, given(namespace), name, given(version))
	switch {
	case err != nil:
		return ledger.Template{}, err
	case len(found) == 0:
		return ledger.Template{}, fmt.Errorf("%s: %w", doing, ledger.ErrNotFound)
	case len(found) > 1:
		return ledger.Template{}, fmt.Errorf("%s: %w: the namespaces %s and %s both have it; name one, as in %s/%s", doing, ledger.ErrInvalid,
			found[0].Namespace, found[1].Namespace, found[0].Namespace, name)
	}
	return found[0], nil
}

// Templates returns all versions of all templates, or only the templates of a namespace, in the order of their names,
// the highest version first.
func (l Ledger) Templates(ctx context.Context, namespace string) ([]ledger.Template, error) {
	return many[ledger.Template](ctx, l.db, "list templates", listTemplates, given(namespace))
}

// StoredMachine returns a machine as the database has it, by its name.
func (l Ledger) StoredMachine(ctx context.Context, name string) (*task.Machine, error) {
	doing := "state machine " + name
	found, err := columns[string](ctx, l.db, doing, templateMachine, name)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, fmt.Errorf("%s: %w", doing, ledger.ErrNotFound)
	}
	m := &task.Machine{}
	if err := json.Unmarshal([]byte(found[0]), m); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return m, nil
}

// ApplyNamespace creates a namespace or changes it. A nil lifecycle, or an empty description, keeps what it has.
func (l Ledger) ApplyNamespace(ctx context.Context, name string, lifecycle *task.Lifecycle, description string) (uuid.UUID, error) {
	doing := "apply namespace " + name
	var encoded []byte
	if lifecycle != nil {
		var err error
		if encoded, err = json.Marshal(lifecycle); err != nil {
			return uuid.Nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	return one[uuid.UUID](ctx, l.db, doing, applyNamespace, name, document(encoded), given(description))
}

// Namespaces returns all namespaces, or the one of this name, in the order of their names.
func (l Ledger) Namespaces(ctx context.Context, name string) ([]ledger.Namespace, error) {
	return many[ledger.Namespace](ctx, l.db, "list namespaces", listNamespaces, given(name))
}

// columns runs a query of one column.
func columns[T any](ctx context.Context, db DB, doing, sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, explain(doing, err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	return values, explain(doing, err)
}
