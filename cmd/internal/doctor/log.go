package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/relay/postgres"
)

func checkSequence(ctx context.Context, p *patient) ([]result, error) {
	var name *string
	var cache *int64
	var last, position int64
	if err := p.Database.QueryRow(ctx, sequenceQuery).Scan(&name, &cache, &last, &position); err != nil {
		return nil, err
	}
	var out []result
	switch {
	case name == nil || cache == nil:
		return fail(postgres.StallHint("NO_SEQUENCE"), "outbox_event.id has no sequence"), nil
	case *cache > 1:
		out = fail(postgres.StallHint("SEQUENCE_CACHE"),
			"%s has CACHE %d: no id is known to be final, so gaps stay open, and events in commit order wait for ever", *name, *cache)
	}
	if last < position {
		out = append(out, fail("stop the writers, find out whether rows were lost with it (docs/restoring.md), and run: select setval('"+*name+"', (select position from postrider.outbox_progress))",
			"%s stands at %d, below the position %d of the log, after a restore, TRUNCATE … RESTART IDENTITY or setval: no relay leads, because new events would have ids that were passed already",
			*name, last, position)...)
	}
	if out == nil {
		out = well("ids are drawn one by one, and beyond the position of the log")
	}
	return out, nil
}

func checkSubscriptions(ctx context.Context, p *patient) ([]result, error) {
	names, err := p.column(ctx, subscriptionsQuery)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return fail("take outbox_event out of the publication and run: alter subscription "+names[0]+" refresh publication; or drop the subscription",
			"logical replication writes into outbox_event (subscriptions: %s): rows with ids below the position are never read", strings.Join(names, ", ")), nil
	}
	return well("no subscription writes into outbox_event"), nil
}

func checkAdditions(ctx context.Context, p *patient) ([]result, error) {
	found, err := p.column(ctx, additionsQuery)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		return warn("drop them; their checks and copies belong into the services, or into consumers",
			"outbox_event has what is not Postrider's: %s. Every insert pays for it, rows that it changes or drops are not what was written, and a foreign key keeps retention from removing rows",
			strings.Join(found, ", ")), nil
	}
	return well("outbox_event has no triggers and no references, and no constraints but Postrider's"), nil
}

func checkDurability(ctx context.Context, p *patient) ([]result, error) {
	var session, names string
	var off []string
	var standbys int
	if err := p.Database.QueryRow(ctx, durabilityQuery).Scan(&session, &off, &standbys, &names); err != nil {
		return nil, err
	}
	return judgeDurability(session, off, standbys, names), nil
}

// judgeDurability looks at what can take commits back that were acknowledged.
func judgeDurability(session string, off []string, standbys int, names string) []result {
	const harm = "Kafka can then have events whose transactions no longer exist, and new events with their ids"
	var out []result
	if session == "off" && len(off) == 0 {
		off = []string{"the server"}
	}
	if len(off) > 0 {
		out = warn("set synchronous_commit to on wherever events are written (docs/security.md)",
			"synchronous_commit is off for %s: a crash of the server can lose the last commits. %s", strings.Join(off, ", "), harm)
	}
	switch {
	case standbys > 0 && names == "":
		out = append(out, warn("set synchronous_standby_names, and promote only standbys that it names; or follow docs/restoring.md after each failover",
			"%s, and commits wait for none (synchronous_standby_names is empty): a failover can lose the last commits. %s",
			plural.Of(standbys, "standby is connected", "standbys are connected"), harm)...)
	case standbys > 0 && session == "local":
		out = append(out, warn("set synchronous_commit to on wherever events are written (docs/security.md)",
			"synchronous_commit is local: commits wait for no standby, and a failover can lose the last ones. %s", harm)...)
	}
	switch {
	case out != nil:
		return out
	case standbys > 0:
		return well("commits are on disk, and wait for %s, before they are acknowledged", names)
	}
	return well("commits are on disk before they are acknowledged; no standby is connected")
}

// leaderPatience is how long a leader is waited for: one that takes over needs less.
const leaderPatience = time.Second

func checkLeader(ctx context.Context, p *patient) ([]result, error) {
	deadline := time.Now().Add(leaderPatience)
	for {
		var leads bool
		var worker string
		var since float64
		var relays int
		err := p.Database.QueryRow(ctx, leaderQuery).Scan(&leads, &worker, &since, &relays)
		if err != nil || leads || relays == 0 || time.Now().After(deadline) {
			p.leads = leads
			return judgeLeader(leads, worker, seconds(since), relays), err
		}
		if err := loop.Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func judgeLeader(leads bool, worker string, since time.Duration, relays int) []result {
	switch {
	case leads:
		return well("%s leads the outbox for %v", worker, since)
	case relays > 0:
		return fail("look at the log of postrider serve for what keeps it from leading (loop lead); docs/runbook.md, NobodyLeads",
			"relays are connected and none leads the outbox: no event goes")
	}
	return warn("start postrider serve with the role relay", "no relay leads the outbox, and none is seen to be connected: no event goes")
}

func checkRetention(ctx context.Context, p *patient) ([]result, error) {
	var stopped *time.Time
	var reason string
	if err := p.Database.QueryRow(ctx, retentionQuery).Scan(&stopped, &reason); err != nil {
		return nil, err
	}
	if stopped != nil {
		return fail("docs/runbook.md, RetentionStopped: find the rows first; events may have been passed over",
			"retention has stopped since %s: %s", stopped.UTC().Format(time.RFC3339), reason), nil
	}
	return well("the rows that were removed agreed with the receipts"), nil
}

func checkReceipts(ctx context.Context, p *patient) ([]result, error) {
	var late int64
	if err := p.Database.QueryRow(ctx, receiptsQuery, p.limits.receipts+1).Scan(&late); err != nil {
		return nil, err
	}
	if late > p.limits.receipts {
		return warn("look at the logs of relays for errors of the loop retention, which merges them; postrider outbox cleanup does it at once",
			"more than %d receipts older than an hour are not merged: looking for when an event went becomes slow", p.limits.receipts), nil
	}
	return well("small receipts are merged"), nil
}

// column are the rows of a query of one text.
func (p *patient) column(ctx context.Context, query string) ([]string, error) {
	rows, err := p.Database.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
