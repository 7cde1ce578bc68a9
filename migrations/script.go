package migrations

import (
	"fmt"
	"strings"
)

// SQL returns what going from one version to another would run, as a script for psql, for
// those who review or apply schema changes by hand: the same transactions, settings, lock and
// history rows. It needs no database; the Runner's connection may be nil.
func (r *Runner) SQL(from, to int) (string, error) {
	for _, version := range []int{from, to} {
		if err := r.checkVersion(version); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- Postrider schema, version %d to %d. Run with: psql --set ON_ERROR_STOP=1 --file FILE\n", from, to)
	if from == to {
		return b.String(), nil
	}
	fmt.Fprintf(&b, "select pg_advisory_lock(%d);\n", lockKey)
	for _, s := range r.steps(from, to) {
		fmt.Fprintf(&b, "\n-- %s\nbegin isolation level read committed read write;\n%s\n", s.File(s.direction), r.settings())
		if s.direction == Up {
			if s.Version == 1 {
				b.WriteString(terminated(historyCreate))
			}
			b.WriteString(terminated(s.Up))
			fmt.Fprintf(&b, "insert into postrider.schema_migration (version, name, checksum) values (%d, '%s', '%s');\n",
				s.Version, s.Name, s.Checksum)
		} else {
			b.WriteString(terminated(s.Down))
			fmt.Fprintf(&b, "delete from postrider.schema_migration where version = %d;\n", s.Version)
			if s.Version == 1 {
				b.WriteString(terminated(historyDrop))
			}
		}
		b.WriteString("commit;\n")
	}
	fmt.Fprintf(&b, "\nselect pg_advisory_unlock(%d);\n", lockKey)
	return b.String(), nil
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
