package migrations

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// SQL returns what migrating an empty database would run, as a script for psql, for people who review
// or apply schema changes by hand: the same transactions, settings, lock and history rows. It needs
// no database; the Runner's connection may be nil.
func (r *Runner) SQL() string {
	return r.sql(&history{migrations: map[string][]applied{}, code: map[string][]appliedCode{}})
}

// PendingSQL returns, as SQL does, what Up would run in the database as it is.
func (r *Runner) PendingSQL(ctx context.Context) (string, error) {
	h, err := r.history(ctx)
	if err != nil {
		return "", err
	}
	if err := r.compare(h); err != nil {
		return "", err
	}
	return r.sql(h), nil
}

// sql writes the steps from a history on, and changes that as they would.
func (r *Runner) sql(h *history) string {
	var b strings.Builder
	b.WriteString("-- Postrider schema. Run with: psql --set ON_ERROR_STOP=1 --file FILE\n")
	if r.next(h, nil) == nil {
		b.WriteString("-- The database has all of it.\n")
		return b.String()
	}
	fmt.Fprintf(&b, "select pg_advisory_lock(%d);\n", lockKey)
	for s := r.next(h, nil); s != nil; s = r.next(h, nil) {
		fmt.Fprintf(&b, "\nbegin isolation level read committed read write;\n%s\n", r.settings(s))
		if !h.made {
			b.WriteString(terminated(historyCreate))
			h.made = true
		}
		b.WriteString(terminated(codeDrop))
		name := s.room.Name
		if m := s.migration; m != nil {
			fmt.Fprintf(&b, "\n-- %s\n%s", m.File(), terminated(m.SQL))
			fmt.Fprintf(&b, "insert into postrider.schema_migration (room, version, name, checksum) values ('%s', %d, '%s', '%s');\n",
				m.Room, m.Version, m.Name, m.Checksum)
			h.migrations[name] = append(h.migrations[name], applied{Room: m.Room, Version: m.Version, Name: m.Name, Checksum: m.Checksum})
		}
		if s.withCode {
			for _, f := range s.code {
				fmt.Fprintf(&b, "\n-- %s\n%s", f.File(), terminated(f.SQL))
			}
			b.WriteString("\n" + terminated(codeRecord))
			h.code[name] = []appliedCode{{Room: name, Checksum: s.room.Checksum, Files: s.room.files(), AppliedAt: time.Now()}}
		}
		b.WriteString("commit;\n")
	}
	fmt.Fprintf(&b, "\nselect pg_advisory_unlock(%d);\n", lockKey)
	return b.String()
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
