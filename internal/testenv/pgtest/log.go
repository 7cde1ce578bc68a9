package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// SettleLog writes the receipt with which a leader disposes of every event that is there. An event without an exception
// was acknowledged by its topic, as long ago as the interval says.
func SettleLog(t testing.TB, conn *pgx.Conn, ago string) {
	t.Helper()
	Exec(t, conn, `insert into postrider.outbox_receipt (number, term, position, first_id, events, gaps, at)
		select p.number + 1, p.term, e.last, e.first, e.ids, '{}', clock_timestamp() - $1::text::interval
		from postrider.outbox_progress p,
		     (select min(id) as first, max(id) as last, range_agg(int8range(id, id + 1)) as ids from postrider.outbox_event
		      where id > (select position from postrider.outbox_progress)) e
		where e.last is not null`, ago)
}
