package postgres

import "github.com/postrider/postrider/internal/relay"

// stalls says what to do about each reason why the newest drawn id is not known. Then no id is known to be final:
// events in commit order wait, and gaps stay open. The codes are read_last_id's.
var stalls = map[string]string{
	"SEQUENCE_CACHE": "sessions draw the ids of outbox_event in blocks, so the ids that are still to come are unknown: run " +
		"`alter table postrider.outbox_event alter column id set cache 1`, and let the services that write connect anew",
	"SEQUENCE_RIGHTS": "the login in database.url may not read the sequence of outbox_event.id: run `postrider migrate roles --apply`, and grant postrider_relay to it",
	"NO_SEQUENCE":     "outbox_event.id has no sequence any more: restore the table from the migrations",
}

// stall is the reason with this code; none for an empty one.
func stall(code string) relay.Stall {
	return relay.Stall{Code: code, Error: stalls[code]}
}

// StallHint says what to do about the reason with this code.
func StallHint(code string) string { return stalls[code] }
