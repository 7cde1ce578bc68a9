package postgres

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/relay"
)

// defaultPublishTimeout is relay.Config's.
const defaultPublishTimeout = 10 * time.Second

// silenceMargin is how much longer the database waits than a relay can be silent.
const silenceMargin = time.Second

// IdleInTransactionLimit is how long a transaction of a relay with this PublishTimeout may wait for it: after
// that the database ends it, and with it the locks of a relay that was stopped or cut off.
func IdleInTransactionLimit(publishTimeout time.Duration) time.Duration {
	return relay.LongestSilence(publishTimeout) + silenceMargin
}

// keepalive says how a session finds out that the relay's machine is gone: the first question after so much
// silence, the pause between the questions, and how many without an answer end the session.
type keepalive struct {
	idle, interval time.Duration
	count          int
}

// limit is how long all that takes.
func (k keepalive) limit() time.Duration { return k.idle + time.Duration(k.count)*k.interval }

// keepaliveFor takes as long as publishing may, in whole seconds: a relay that the network has cut off from
// its database only must not lose its locks while it is still sending.
func keepaliveFor(publishTimeout time.Duration) keepalive {
	k := keepalive{interval: max(time.Second, (publishTimeout / 5).Truncate(time.Second)), count: 3}
	k.idle = max(time.Second, publishTimeout-3*k.interval)
	if whole := k.idle.Truncate(time.Second); whole < k.idle {
		k.idle = whole + time.Second
	}
	return k
}

// plannerSettings are what every query here relies on: no JIT (it costs each read 10 ms once estimates pass
// jit_above_cost), and plans that stay index scans while statistics are stale.
func plannerSettings() map[string]string {
	return map[string]string{
		"jit": "off", "enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off",
		"enable_hashjoin": "off", "enable_mergejoin": "off", "random_page_cost": "1",
	}
}

// settings are plannerSettings, and an end to transactions whose relay vanished. Sessions have them, or behind a pooler each
// transaction.
func settings(publishTimeout time.Duration) map[string]string {
	all := plannerSettings()
	maps.Copy(all, map[string]string{
		"idle_in_transaction_session_timeout": milliseconds(IdleInTransactionLimit(publishTimeout)), "statement_timeout": "60s", "lock_timeout": "10s",
	})
	return all
}

// guest are the settings of a transaction in a pool that NewPool did not open: the desk's, or a command's. Its plans fit every
// argument, and its sessions keep them: to plan the list of events takes longer than to read it.
var guest = sync.OnceValue(func() local {
	all := plannerSettings()
	all["plan_cache_mode"] = "force_generic_plan"
	return newLocal(all)
})

// connectionSettings are the settings that belong to the connection, which behind a pooler is not the relay's. A
// server whose system lacks one of them, or that is reached through a socket file, leaves it at 0.
func connectionSettings(publishTimeout time.Duration) map[string]string {
	k := keepaliveFor(publishTimeout)
	return map[string]string{
		"tcp_keepalives_idle": strconv.Itoa(int(k.idle.Seconds())), "tcp_keepalives_interval": strconv.Itoa(int(k.interval.Seconds())),
		"tcp_keepalives_count": strconv.Itoa(k.count), "tcp_user_timeout": milliseconds(k.limit()),
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// localKey is where a connection has its settings for one transaction.
const localKey = "postrider: settings of a transaction"

// local are settings for one transaction: statement in a batch, script as what follows begin.
type local struct{ statement, script string }

func newLocal(settings map[string]string) local {
	var calls, sets []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		calls = append(calls, "set_config('"+name+"', '"+settings[name]+"', true)")
		sets = append(sets, "; set local "+name+" = '"+settings[name]+"'")
	}
	return local{"select " + strings.Join(calls, ", "), strings.Join(sets, "")}
}

// localOf returns the settings for one transaction on a connection. bound says that a transaction must have them, because the
// session does not.
func localOf(conn *pgx.Conn) (l local, bound bool) {
	l, own := conn.PgConn().CustomData()[localKey].(local)
	if !own {
		return guest(), true
	}
	return l, pooler.Behind(conn)
}

const beginReadCommitted = "begin isolation level read committed"

// queueBegin queues what begins a transaction on a connection, and returns how many results that has.
func queueBegin(b *pgx.Batch, conn *pgx.Conn) int {
	b.Queue(beginReadCommitted)
	settings, bound := localOf(conn)
	if !bound {
		return 1
	}
	b.Queue(settings.statement)
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
