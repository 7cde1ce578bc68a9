package migrations

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Form says how a script is to be run.
type Form int

const (
	// ForPsql is a script that begins and commits a transaction for each step, as Up does.
	ForPsql Form = iota
	// ForTool is a script for a migration tool, which begins one transaction before the script and commits it after.
	ForTool
)

// SQL returns what migrating an empty database would run, as a script, for people who review or apply schema changes by
// hand and for other migration tools: the same settings, lock and history rows. It needs no database; the Runner's
// connection may be nil.
func (r *Runner) SQL(form Form) string {
	h := noHistory()
	_ = r.choose(h) // nothing is there that could be refused
	return r.sql(h, form)
}

// PendingSQL returns, as SQL does, what Up would run in the database as it is.
func (r *Runner) PendingSQL(ctx context.Context, form Form) (string, error) {
	h, err := r.history(ctx)
	if err != nil {
		return "", err
	}
	if err := r.compare(h); err != nil {
		return "", err
	}
	return r.sql(h, form), nil
}

// frame is what stands before and behind all steps of a script, and before and behind each.
type frame struct{ head, begin, end, foot string }

// The head of a script for a tool refuses to go on outside of a transaction, where what it notes is gone at once. The foot puts back the
// settings that statements of the tool in the same transaction may depend on.
var frames = map[Form]frame{
	ForPsql: {
		head:  fmt.Sprintf("-- Postrider schema. Run with: psql --set ON_ERROR_STOP=1 --file FILE\nselect pg_advisory_lock(%d);\n", lockKey),
		begin: "begin isolation level read committed read write;\n",
		end:   "commit;\n",
		foot:  fmt.Sprintf("\nselect pg_advisory_unlock(%d);\n", lockKey),
	},
	ForTool: {
		head: fmt.Sprintf(`-- Postrider schema. A migration tool runs it in one transaction. So does
-- psql --single-transaction --set ON_ERROR_STOP=1 --file FILE
select set_config('postrider.before', json_build_object('search_path', current_setting('search_path'),
    'lock_timeout', current_setting('lock_timeout'), 'statement_timeout', current_setting('statement_timeout'),
    'check_function_bodies', current_setting('check_function_bodies'))::text, true);
do $$
begin
    if coalesce(current_setting('postrider.before', true), '') = '' then
        raise exception 'postrider: this script must run in one transaction';
    end if;
end
$$;
select pg_advisory_xact_lock(%d);
`, lockKey),
		foot: "\nselect set_config(s.key, s.value, true) from json_each_text(current_setting('postrider.before')::json) s;\n",
	},
}

// sql writes the steps from a history on, and changes that as they would.
func (r *Runner) sql(h *history, form Form) string {
	var b strings.Builder
	f := frames[form]
	if r.next(h, nil) == nil {
		return "-- Postrider schema. The database has all of it.\n"
	}
	b.WriteString(f.head)
	for s := r.next(h, nil); s != nil; s = r.next(h, nil) {
		fmt.Fprintf(&b, "\n%s%s\n", f.begin, r.settings(s))
		r.writeStep(&b, h, s)
		b.WriteString(f.end)
	}
	b.WriteString(f.foot)
	return b.String()
}

// writeStep writes what applyIn does.
func (r *Runner) writeStep(b *strings.Builder, h *history, s *step) {
	if !h.made {
		b.WriteString(terminated(historyCreate))
		h.made = true
	}
	if len(s.adds) > 0 {
		b.WriteString(terminated(partsAdd))
		h.added = nil
	}
	b.WriteString(terminated(codeDrop))
	name := s.room.Name
	if m := s.migration; m != nil {
		fmt.Fprintf(b, "\n-- %s\n%s", m.File(), terminated(m.SQL))
		fmt.Fprintf(b, "insert into postrider.schema_migration (room, version, name, checksum) values ('%s', %d, '%s', '%s');\n",
			m.Room, m.Version, m.Name, m.Checksum)
		h.migrations[name] = append(h.migrations[name], applied{Room: m.Room, Version: m.Version, Name: m.Name, Checksum: m.Checksum})
	}
	if s.withCode {
		for _, f := range s.code {
			fmt.Fprintf(b, "\n-- %s\n%s", f.File(), terminated(f.SQL))
		}
		b.WriteString("\n" + terminated(codeRecord))
		h.code[name] = []appliedCode{{Room: name, Checksum: s.room.Checksum, Files: s.room.files(), AppliedAt: time.Now()}}
	}
}

// terminated ends SQL with a semicolon and a new line, on a line of its own where a comment
// may be the last thing in it.
func terminated(sql string) string {
	sql = strings.TrimRight(sql, " \t\n") + "\n"
	statements := splitStatements(sql)
	if n := len(statements); n > 0 && !statements[n-1].terminated {
		sql += ";\n"
	}
	return sql
}
