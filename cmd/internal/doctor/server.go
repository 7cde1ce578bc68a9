package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/pooler"
	"github.com/postrider/postrider/internal/relay/postgres"
)

// server is what PostgreSQL says of itself.
type server struct {
	number            int
	version           string
	standby, readOnly bool
	prepared          int
	user              string
}

func (p *patient) server(ctx context.Context) (s server, err error) {
	err = p.Database.QueryRow(ctx, serverQuery).Scan(&s.number, &s.version, &s.standby, &s.readOnly, &s.prepared, &s.user)
	return s, err
}

func checkConnection(ctx context.Context, p *patient) ([]result, error) {
	if p.Database == nil {
		return fail("", "%v", p.DatabaseError), nil // it says what to do
	}
	// Asked in the oldest way there is, and before anything that only PostgreSQL has.
	var version string
	if err := p.Database.QueryRow(ctx, "select version()", pgx.QueryExecModeSimpleProtocol).Scan(&version); err != nil {
		return nil, err
	}
	if name, why, remedy := pgserver.Foreign(version); why != "" {
		return fail(remedy, "%s answers, and is %s: %s", p.Settings.Database.URL, name, why), nil
	}
	s, err := p.server(ctx)
	if err != nil {
		return nil, err
	}
	p.serverReached = true
	var parts []migrations.Part
	if err := p.Database.QueryRow(ctx, partsQuery).Scan(&parts); err == nil { // a user that may not use the schema fails below
		p.parts = parts
	}
	return well("%s answers, as %s", p.Settings.Database.URL, s.user), nil
}

// newestKnown is the newest major version of PostgreSQL that Postrider is tested with.
const newestKnown = 18

func checkVersion(ctx context.Context, p *patient) ([]result, error) {
	s, err := p.server(ctx)
	return judgeVersion(s.number, s.version), err
}

func judgeVersion(number int, version string) []result {
	why, remedy := pgserver.Unfit(version)
	switch {
	case why != "":
		return fail(remedy, "PostgreSQL %s: %s", version, why)
	case number/10000 > newestKnown:
		return well("PostgreSQL %s; Postrider is tested up to %d", version, newestKnown)
	}
	return well("PostgreSQL %s", version)
}

// services are what differs for Postrider where PostgreSQL is run by others, by the names that service.sql finds. They are
// from the services' own documentation; Postrider's tests run on none of them.
var services = map[string]string{
	"Aurora":     "use the cluster's endpoint and never the reader's, which takes no writes",
	"Amazon RDS": "use the instance's endpoint and not that of a read replica",
	"Azure":      "connect to port 5432; 6432 is PgBouncer, through which the notifier is not heard",
	"Neon":       "use the address without -pooler for the notifier; a compute that sleeps is kept awake by a relay that looks for events, unless its source has sleep",
	"Supabase":   "use the direct connection or the pooler's port for sessions, 5432; through 6543 the notifier is not heard",
	"AlloyDB":    "use the address of the primary instance and not that of a read pool",
	"Citus":      "leave the tables of the schema postrider as they are, on the coordinator, and distribute none",
}

func checkService(ctx context.Context, p *patient) ([]result, error) {
	var name string
	err := p.Database.QueryRow(ctx, serviceQuery).Scan(&name)
	return judgeService(name), err
}

func judgeService(name string) []result {
	if name == "" {
		return well("no service that differs from PostgreSQL is known by its settings")
	}
	return well("%s: %s", name, services[name])
}

func checkWrites(ctx context.Context, p *patient) ([]result, error) {
	s, err := p.server(ctx)
	switch {
	case err != nil:
		return nil, err
	case s.standby:
		return fail(postgres.HintReadOnlyServer, "the server is a standby and takes no writes"), nil
	case s.readOnly:
		return fail("set default_transaction_read_only to off for the database and the user; or "+postgres.HintReadOnlyServer,
			"sessions are read-only: default_transaction_read_only is on"), nil
	}
	return well("sessions may write"), nil
}

func checkCreation(ctx context.Context, p *patient) ([]result, error) {
	var may, there bool
	if err := p.Database.QueryRow(ctx, mayCreateQuery).Scan(&may, &there); err != nil {
		return nil, err
	}
	switch {
	case there:
		return well("the schema postrider is there"), nil
	case !may:
		return fail("grant create on the database to the user, or migrate as another one", "there is no schema postrider, and the user of database.url may not create it"), nil
	}
	return well("there is no schema postrider yet, and the user of database.url may create it"), nil
}

func checkPooler(ctx context.Context, p *patient) ([]result, error) {
	conn, err := p.Database.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	between, err := pooler.Between(ctx, conn.Conn())
	return judgePooler(between, pooler.Mode(p.Settings.Database.Pooler)), err
}

func judgePooler(between bool, mode pooler.Mode) []result {
	switch {
	case between && mode == pooler.None:
		return fail("leave database.pooler at auto, or set it to transaction; none is right only for a pooler in session mode that passes parameters on",
			"a pooler stands before the database, and database.pooler is none")
	case between:
		return well("a pooler stands before the database; nothing is kept in sessions (database.pooler: %s). The notifier needs a direct connection to be heard: without it idle relays poll", mode)
	case mode == pooler.Transaction:
		return warn("leave database.pooler at auto", "no pooler stands before the database, and database.pooler is transaction: statements are not prepared, for nothing")
	}
	return well("PostgreSQL itself, no pooler")
}

func checkConnections(ctx context.Context, p *patient) ([]result, error) {
	var most, used, perDatabase, perRole int
	if err := p.Database.QueryRow(ctx, connectionsQuery).Scan(&most, &used, &perDatabase, &perRole); err != nil {
		return nil, err
	}
	return judgeConnections(p.Connections, most, used, perDatabase, perRole), nil
}

// judgeConnections compares the connections that a process may open with the limits and the free ones. Limit -1 is none.
func judgeConnections(need, most, used, perDatabase, perRole int) []result {
	for _, limit := range []struct {
		name  string
		value int
	}{{"connection limit of the database", perDatabase}, {"connection limit of the user", perRole}} {
		if limit.value >= 0 && limit.value < need {
			return fail("raise it, or give roles to processes of their own (postrider serve --roles)", "a process with all roles opens up to %d connections, and the %s is %d", need, limit.name, limit.value)
		}
	}
	if most < need {
		return fail("raise max_connections, or give roles to processes of their own (postrider serve --roles)", "a process with all roles opens up to %d connections, and the server has %d in all", need, most)
	}
	if free := most - used; free < need {
		return warn("raise max_connections, give roles to processes of their own (postrider serve --roles), or put a pooler in transaction mode before the database",
			"a process with all roles opens up to %d connections; of %d there are %d free just now", need, most, free)
	}
	return well("%d of %d are free; a process with all roles opens up to %d", most-used, most, need)
}

func checkPreparedTransactions(ctx context.Context, p *patient) ([]result, error) {
	s, err := p.server(ctx)
	return judgePrepared(s.prepared, p.Settings.Outbox.Notifier), err
}

func judgePrepared(most int, notifier bool) []result {
	if most == 0 {
		return well("max_prepared_transactions is 0")
	}
	if notifier {
		return warn("set max_prepared_transactions to 0 if no program prepares transactions; otherwise set outbox.notifier to false, which says the same aloud",
			"max_prepared_transactions is %d: a transaction that notifies cannot be prepared, so idle relays poll instead", most)
	}
	return well("max_prepared_transactions is %d, and the notifier is off", most)
}

func checkOldTransactions(ctx context.Context, p *patient) ([]result, error) {
	rows, err := p.Database.Query(ctx, transactionsQuery)
	if err != nil {
		return nil, err
	}
	var found []transaction
	var t transaction
	_, err = pgx.ForEachRow(rows, []any{&t.kind, &t.name, &t.application, &t.user, &t.state, &t.seconds}, func() error {
		found = append(found, t)
		return nil
	})
	return judgeTransactions(found, p.limits), err
}

// transaction is one that is open, or prepared.
type transaction struct {
	kind, name, application, user, state string
	seconds                              *float64 // nil where it may not be seen
}

// judgeTransactions looks at the oldest ones, the oldest first.
func judgeTransactions(found []transaction, l limits) []result {
	const harm = "nothing that was removed since it began is vacuumed, and if it writes events, gaps stay open and events in commit order wait for it"
	hidden := 0
	var out []result
	for _, t := range found {
		if t.seconds == nil {
			hidden++
			continue
		}
		age := time.Duration(*t.seconds * float64(time.Second))
		if age < l.oldTransaction {
			continue
		}
		what := fmt.Sprintf("the session %s of %s (%s%s) has a transaction open for %v", t.name, t.user, orNameless(t.application), comma(t.state), age.Round(time.Second))
		hint := fmt.Sprintf("end it where it comes from, or with: select pg_terminate_backend(%s)", t.name)
		if t.kind == "prepared" {
			what = fmt.Sprintf("the prepared transaction %s of %s is %v old", t.name, t.user, age.Round(time.Second))
			hint = fmt.Sprintf("commit prepared or rollback prepared '%s'", strings.ReplaceAll(t.name, "'", "''"))
		}
		verdict := Warning
		if age >= l.ancientTransaction {
			verdict = Failed
		}
		out = append(out, result{verdict, what + ": " + harm, hint})
		if len(out) == 5 {
			break
		}
	}
	if len(out) > 0 {
		return out
	}
	if hidden > 0 {
		return skip("grant pg_read_all_stats to the user of database.url", "none is old; for %d sessions of other users the beginning is not shown", hidden)
	}
	return well("no transaction is older than %v", l.oldTransaction)
}

func orNameless(application string) string {
	if application == "" {
		return "no application_name"
	}
	return application
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return ", " + s
}

func checkTrigrams(ctx context.Context, p *patient) ([]result, error) {
	var installed, available bool
	err := p.Database.QueryRow(ctx, trigramsQuery).Scan(&installed, &available)
	return judgeTrigrams(installed, available), err
}

func judgeTrigrams(installed, available bool) []result {
	const slow = "looking for a part of an error message reads every investigation"
	switch {
	case installed:
		return well("the extension is there")
	case available:
		return warn("create extension pg_trgm, as a user with the right to create in the database, and then postrider migrate up", "the extension is not installed: "+slow)
	}
	return warn("install the contrib package of PostgreSQL, then create extension pg_trgm", "the server does not have the extension: "+slow)
}

func checkClock(ctx context.Context, p *patient) ([]result, error) {
	var offset, uncertain time.Duration
	for i := range 3 { // the quickest answer says it best
		began := time.Now()
		var there time.Time
		if err := p.Database.QueryRow(ctx, clockQuery).Scan(&there); err != nil {
			return nil, err
		}
		took := time.Since(began)
		if i == 0 || took/2 < uncertain {
			uncertain = took / 2
			offset = there.Sub(began.Add(took / 2))
		}
	}
	return judgeClock("the database's clock", offset, uncertain, p.limits), nil
}

func judgeClock(whose string, offset, uncertain time.Duration, l limits) []result {
	const hint = "set both clocks by the same time servers (NTP)"
	way := "ahead of"
	if offset < 0 {
		way = "behind"
	}
	if size := offset.Abs() - uncertain; size > l.clockFailure {
		return fail(hint, "%s is %v %s this one: ages, retries and expiries are wrong by as much", whose, offset.Abs().Round(time.Second), way)
	} else if size > l.clockWarning {
		return warn(hint, "%s is %v %s this one", whose, offset.Abs().Round(10*time.Millisecond), way)
	}
	return well("%s is within %v of this one", whose, max(offset.Abs()+uncertain, time.Millisecond).Round(time.Millisecond))
}
