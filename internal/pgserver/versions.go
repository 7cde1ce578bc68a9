package pgserver

import (
	"fmt"
	"strconv"
	"strings"
)

// MinMajor is the oldest major version of PostgreSQL that Postrider runs on.
const MinMajor = 14

var neededVersion = fmt.Sprintf("PostgreSQL %d or newer is needed", MinMajor)

// Unfit says why Postrider does not run on a server of this version, and what to do. The version is the text of
// server_version, for example "15.18 (Debian 15.18-0+deb12u1)" or "18beta1"; of crdb_version, where a server reports that. If
// the version will do, or cannot be read, both results are empty.
//
// CockroachDB has no LISTEN, and its pg_locks does not say who waits for whom, which the relay asks. In YugabyteDB each node
// hands out numbers of a sequence from a cache of its own, so that ids say nothing about the order of commits.
//
// PostgreSQL 18.0 and 18.1 leave rows out of an UPDATE or a FOR UPDATE that joins tables by a nested loop, when another
// transaction changed one of the rows meanwhile. TestServerLosesNoUpdates of migrations fails there.
func Unfit(version string) (why, remedy string) {
	switch {
	case strings.HasPrefix(version, "CockroachDB"):
		return "it is no PostgreSQL: it has neither LISTEN nor the locks that the relay looks at", neededVersion
	case strings.Contains(version, "-YB-"):
		return "it is YugabyteDB, whose sequences are cached in each node: ids are in no order, and the relay would leave events out", neededVersion
	}
	number := version[:len(version)-len(strings.TrimLeft(version, "0123456789"))]
	major, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return "", ""
	case major < MinMajor:
		return "it is too old", neededVersion
	case major == 18 && minor(version) < 2:
		return "18.0 and 18.1 lose updates without an error when transactions meet", "PostgreSQL 18.2 fixed that: update to the newest 18"
	}
	return "", ""
}

// Foreign says which server it is that answers select version() with this text, where it speaks PostgreSQL's protocol and is
// another program, or a version that Postrider does not run on (Unfit). Otherwise all results are empty.
func Foreign(text string) (name, why, remedy string) {
	of, isPostgres := strings.CutPrefix(text, "PostgreSQL ")
	version, _, _ := strings.Cut(of, " ")
	switch {
	case text == "":
		return "", "", ""
	case strings.HasPrefix(text, "CockroachDB"):
		name = text
	case !isPostgres:
		return text, "it speaks PostgreSQL's protocol, and is another program: Postrider depends on locks, sequences and snapshots as PostgreSQL has them", neededVersion
	case strings.Contains(text, "Redshift"), strings.Contains(text, "Greenplum"), strings.Contains(text, "openGauss"):
		return text, "it was made of an old PostgreSQL, and is another program", neededVersion
	default:
		name = "PostgreSQL " + version
		text = version
	}
	if why, remedy = Unfit(text); why == "" {
		name = ""
	}
	return name, why, remedy
}

// minor is the number behind the point, 0 where there is none.
func minor(version string) int {
	_, after, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(after[:len(after)-len(strings.TrimLeft(after, "0123456789"))])
	return n
}
