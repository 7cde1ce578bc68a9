package pgserver

import (
	"fmt"
	"strconv"
	"strings"
)

// MinMajor is the oldest major version of PostgreSQL that Postrider runs on.
const MinMajor = 14

// Unfit says why Postrider does not run on a server of this version, and what to do. The version is the text of
// server_version, for example "15.18 (Debian 15.18-0+deb12u1)" or "18beta1". If the version will do, or cannot be read,
// both results are empty.
//
// PostgreSQL 18.0 and 18.1 leave rows out of an UPDATE or a FOR UPDATE that joins tables by a nested loop, when another
// transaction changed one of the rows meanwhile. TestServerLosesNoUpdates of migrations fails there.
func Unfit(version string) (why, remedy string) {
	number := version[:len(version)-len(strings.TrimLeft(version, "0123456789"))]
	major, err := strconv.Atoi(number)
	switch {
	case err != nil:
		return "", ""
	case major < MinMajor:
		return "it is too old", fmt.Sprintf("PostgreSQL %d or newer is needed", MinMajor)
	case major == 18 && minor(version) < 2:
		return "18.0 and 18.1 lose updates without an error when transactions meet", "PostgreSQL 18.2 fixed that: update to the newest 18"
	}
	return "", ""
}

// minor is the number behind the point, 0 where there is none.
func minor(version string) int {
	_, after, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(after[:len(after)-len(strings.TrimLeft(after, "0123456789"))])
	return n
}
