package pgserver

import "fmt"

// MinMajor is the oldest major version of PostgreSQL that Postrider runs on.
const MinMajor = 14

// Unfit says why Postrider does not run on a server with this server_version_num, and what to do. It is empty for one
// that will do.
//
// PostgreSQL 18.0 and 18.1 leave rows out of an UPDATE or a FOR UPDATE that joins tables by a nested loop, when another
// transaction changed one of its rows meanwhile. TestServerLosesNoUpdates of migrations would fail there.
func Unfit(number int) string {
	switch {
	case number < MinMajor*10000:
		return fmt.Sprintf("it is too old; Postrider needs PostgreSQL %d or newer", MinMajor)
	case number == 180000 || number == 180001:
		return "18.0 and 18.1 lose updates without an error when transactions meet; PostgreSQL 18.2 mended that, update to the newest 18"
	}
	return ""
}
