package postgres

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/relay/postgres/pooler"
)

// IdleInTransactionLimit is how long a transaction of the relay may wait for its relay: after that the
// database ends it, and with it the locks of a relay that vanished.
const IdleInTransactionLimit = 30 * time.Second

// settings are what the relay's queries rely on: no JIT (it costs each claim 10 ms once estimates pass
// jit_above_cost), plans that stay index scans while statistics are stale, and an end to transactions whose
// relay vanished. Sessions have them, or behind a pooler each transaction.
var settings = map[string]string{
	"jit": "off", "enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off",
	"enable_hashjoin": "off", "enable_mergejoin": "off",
	// An index walk that begins at the right place beats one that is in the order of the table.
	"random_page_cost":                    "1",
	"idle_in_transaction_session_timeout": strconv.Itoa(int(IdleInTransactionLimit.Seconds())) + "s", "statement_timeout": "60s", "lock_timeout": "10s",
}

// localSettings sets them for one transaction, as a statement of a batch; localScript as what follows begin.
var localSettings, localScript = local(settings)

func local(settings map[string]string) (statement, script string) {
	var calls, sets []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		calls = append(calls, "set_config('"+name+"', '"+settings[name]+"', true)")
		sets = append(sets, "; set local "+name+" = '"+settings[name]+"'")
	}
	return "select " + strings.Join(calls, ", "), strings.Join(sets, "")
}

const beginReadCommitted = "begin isolation level read committed"

// queueBegin queues what begins a transaction on a connection, and returns how many results that has.
func queueBegin(b *pgx.Batch, conn *pgx.Conn) int {
	b.Queue(beginReadCommitted)
	if !pooler.Behind(conn) {
		return 1
	}
	b.Queue(localSettings)
	return 2
}

// begun reads the results of queueBegin.
func begun(res pgx.BatchResults, n int) error {
	for range n {
		if _, err := res.Exec(); err != nil {
			return err
		}
	}
	return nil
}
