package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/cmd/internal/plural"
)

// forward is a table of another outbox.
type forward struct {
	table string
	mode  adopt.Mode
	age   time.Duration
	// held are the events that a cutover holds, 100,000 at most.
	held int
	// exists says that there is a table or a view of that name.
	exists bool
	// fires says that the trigger forwards rows.
	fires bool
	// published says that the connector's publication has the table.
	publication string
	published   bool
}

func checkForwards(ctx context.Context, p *patient) ([]result, error) {
	rows, err := p.Database.Query(ctx, forwardsQuery)
	if err != nil {
		return nil, err
	}
	var out []result
	var f forward
	var age float64
	tag, err := pgx.ForEachRow(rows, []any{&f.table, &f.mode, &age, &f.held, &f.exists, &f.fires, &f.publication, &f.published}, func() error {
		f.age = seconds(age)
		out = append(out, judgeForward(f, p.limits)...)
		return nil
	})
	if err == nil && len(out) == 0 {
		out = well("%s", plural.Of(int(tag.RowsAffected()), "table of another outbox is forwarded", "tables of other outboxes are forwarded"))
	}
	return out, err
}

func judgeForward(f forward, l limits) []result {
	again := "postrider debezium cutover '" + f.table + "' --run goes on with it, and postrider debezium rollback ends it and goes back"
	switch {
	case f.published && (f.mode == adopt.ModeForward || f.mode == adopt.ModeHeld):
		return fail("alter publication "+pgx.Identifier{f.publication}.Sanitize()+" drop table "+f.table+", and publication.autocreate.mode=disabled at the connector, which puts the table back when it starts",
			"%s is forwarded, and it is in the connector's publication %s again: its rows are sent twice", f.table, f.publication)
	case !f.exists:
		return fail("give the table its name back; if it was dropped for good: delete from postrider.outbox_forward where source_table = '"+strings.ReplaceAll(f.table, "'", "''")+"'",
			"%s is to be forwarded (%s), and there is no such table", f.table, f.mode)
	case f.mode == adopt.ModeHeld && !f.fires:
		return fail("postrider debezium cutover '"+f.table+"' --run makes the trigger again and goes on; rows that were inserted meanwhile are in the table alone",
			"a cutover of %s holds its rows, and its trigger is gone or disabled", f.table)
	case f.mode != adopt.ModeOff && !f.fires:
		return fail("postrider adopt with the flags of the first time makes the trigger again; rows that were inserted meanwhile are not forwarded by it",
			"%s is to be forwarded, and its trigger is gone or disabled", f.table)
	case f.mode == adopt.ModeHeld && f.age >= l.lateFailure:
		return fail(again, "a cutover of %s has not ended for %v: %s held", f.table, f.age, plural.Of(f.held, "event is", "events are"))
	case f.mode == adopt.ModeHeld && f.age >= l.lateWarning:
		return warn(again, "a cutover of %s has not ended for %v: %s held", f.table, f.age, plural.Of(f.held, "event is", "events are"))
	}
	return nil
}
