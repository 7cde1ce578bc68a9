package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/migrations"
)

func checkSchema(ctx context.Context, p *patient) ([]result, error) {
	conn, err := p.Database.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if usable, err := p.mayUse(ctx); err != nil || !usable {
		return fail("postrider migrate roles --apply, and grant postrider_relay or postrider_operator to the user of database.url",
			"the user of database.url may not use the schema postrider"), err
	}
	all, err := migrations.All()
	if err != nil {
		return nil, err
	}
	err = migrations.New(conn.Conn(), all).Validate(ctx)
	switch {
	case errors.Is(err, migrations.ErrChanged), errors.Is(err, migrations.ErrBehind):
		return fail("postrider migrate up, or postrider migrate status to see more", "%v", err), nil
	case errors.Is(err, migrations.ErrAhead):
		p.schemaReady = true
		return warn("update this binary", "%v", err), nil
	case err != nil:
		// A user that may not read the history, a writer for example, can have its rights checked all the same.
		var refused *pgconn.PgError
		p.schemaReady = errors.As(err, &refused) && refused.Code == "42501"
		return nil, err
	}
	p.schemaReady = true
	if len(p.parts) < len(migrations.Parts()) {
		return well("this binary's, of a database that was installed with %s alone: %s; what these parts need is looked at", migrations.JoinParts(p.parts), p.newest(all)), nil
	}
	return well("all of this binary's: %s", p.newest(all)), nil
}

// newest names the last migration of each room that the database has.
func (p *patient) newest(rooms []migrations.Room) string {
	var names []string
	for _, room := range rooms {
		if !p.lacks(room.Part()) {
			names = append(names, room.Migrations[len(room.Migrations)-1].String())
		}
	}
	return strings.Join(names, ", ")
}

// mayUse is true as well where there is no schema yet.
func (p *patient) mayUse(ctx context.Context) (usable bool, err error) {
	var there bool
	if err := p.Database.QueryRow(ctx, mayCreateQuery).Scan(new(bool), &there); err != nil || !there {
		return true, err
	}
	err = p.Database.QueryRow(ctx, schemaUsageQuery).Scan(&usable)
	return usable, err
}

func checkRights(ctx context.Context, p *patient) ([]result, error) {
	missing, err := p.missingRights(ctx)
	if err != nil {
		return nil, err
	}
	return judgeRights(missing, p.Role), nil
}

// Roles are what a user of the database may be checked for.
func Roles() []string { return []string{"relay", "operator", "writer"} }

// missingRights asks for each right of each role whether the present user has it.
func (p *patient) missingRights(ctx context.Context) (map[string][]string, error) {
	grants, err := migrations.Grants(p.parts)
	if err != nil {
		return nil, err
	}
	columns := make([][]string, 5)
	for _, g := range grants {
		for i, v := range []string{strings.TrimPrefix(g.Role, "postrider_"), g.Kind, g.Name, g.Privilege, strings.Join(g.Columns, ", ")} {
			columns[i] = append(columns[i], v)
		}
	}
	rows, err := p.Database.Query(ctx, missingRightsQuery, columns[0], columns[1], columns[2], columns[3], columns[4])
	if err != nil {
		return nil, err
	}
	missing := map[string][]string{}
	var role, right string
	_, err = pgx.ForEachRow(rows, []any{&role, &right}, func() error {
		missing[role] = append(missing[role], right)
		return nil
	})
	return missing, err
}

// judgeRights looks at the rights that each role lacks. When no role is wanted, one complete role is enough.
func judgeRights(missing map[string][]string, wanted string) []result {
	var complete, partly []string
	nearest := ""
	for _, role := range Roles() {
		if len(missing[role]) == 0 {
			complete = append(complete, "postrider_"+role)
			continue
		}
		partly = append(partly, "postrider_"+role)
		if nearest == "" || len(missing[role]) < len(missing[nearest]) {
			nearest = role
		}
	}
	if wanted != "" {
		nearest = wanted
	}
	if wanted == "" && len(complete) > 0 || wanted != "" && len(missing[wanted]) == 0 {
		says := "the user of database.url may do everything that " + strings.Join(complete, ", ") + " may"
		if len(partly) > 0 {
			says += "; not everything that " + strings.Join(partly, ", ") + " may"
		}
		return well("%s", says)
	}
	lacks := missing[nearest]
	shown := lacks[:min(len(lacks), 3)]
	return fail(fmt.Sprintf("postrider migrate roles --apply, and grant postrider_%s to the user of database.url", nearest),
		"the user of database.url lacks %d of the rights of postrider_%s: %s%s", len(lacks), nearest, strings.Join(shown, "; "), more(len(lacks)-len(shown)))
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

func checkRowSecurity(ctx context.Context, p *patient) ([]result, error) {
	rows, err := p.Database.Query(ctx, rowSecurityQuery)
	if err != nil {
		return nil, err
	}
	var hides, others []string
	var table string
	var active bool
	_, err = pgx.ForEachRow(rows, []any{&table, &active}, func() error {
		if active {
			hides = append(hides, table)
		} else {
			others = append(others, table)
		}
		return nil
	})
	const hint = "alter table postrider.TABLE disable row level security, or give the users of Postrider bypassrls"
	switch {
	case err != nil:
		return nil, err
	case len(hides) > 0:
		return fail(hint, "row-level security may hide rows of %s from the user of database.url: events would stay where they are, unseen", strings.Join(hides, ", ")), nil
	case len(others) > 0:
		return warn(hint, "row-level security is on for %s; it does not apply to the user of database.url, and may to others", strings.Join(others, ", ")), nil
	}
	return well("no table hides rows"), nil
}

func checkAutovacuum(ctx context.Context, p *patient) ([]result, error) {
	var on bool
	var off []string
	if err := p.Database.QueryRow(ctx, autovacuumQuery).Scan(&on, &off); err != nil {
		return nil, err
	}
	hot := slices.DeleteFunc(slices.Clone(off), func(t string) bool { return !strings.HasPrefix(t, "outbox_") && !strings.HasPrefix(t, "tasker_") })
	switch {
	case !on:
		return fail("set autovacuum and track_counts to on", "autovacuum is off for the whole server: reads become slower with every row that is removed, and nothing is frozen"), nil
	case len(hot) > 0:
		return fail("alter table postrider."+hot[0]+" reset (autovacuum_enabled)", "autovacuum is off for %s: reads become slower with every row that is removed, and nothing is frozen", strings.Join(hot, ", ")), nil
	case len(off) > 0:
		return warn("alter table postrider."+off[0]+" reset (autovacuum_enabled)", "autovacuum is off for %s", strings.Join(off, ", ")), nil
	}
	rows, err := p.Database.Query(ctx, vacuumedQuery, p.limits.deadRows)
	if err != nil {
		return nil, err
	}
	var out []result
	var table string
	var dead int64
	var seconds float64
	_, err = pgx.ForEachRow(rows, []any{&table, &dead, &seconds}, func() error {
		last := "never was vacuumed"
		if seconds >= 0 {
			last = fmt.Sprintf("was vacuumed %v ago", time.Duration(seconds*float64(time.Second)).Round(time.Second))
		}
		out = append(out, warn("look for old transactions (above), which keep them; then vacuum postrider."+table+", or give autovacuum more workers and a higher autovacuum_vacuum_cost_limit",
			"%s has about %d dead rows and %s", table, dead, last)...)
		return nil
	})
	if err != nil || len(out) > 0 {
		return out, err
	}
	return well("on for every table, and no table has more than %d dead rows", p.limits.deadRows), nil
}
