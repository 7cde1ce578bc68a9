package check

import (
	"context"
	_ "embed"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/adopt"
	"github.com/postrider/postrider/cmd/internal/debezium"
)

//go:embed queries/tables.sql
var tablesQuery string

//go:embed queries/table.sql
var tableQuery string

//go:embed queries/columns.sql
var columnsQuery string

// database looks at the table, the publication, the slot, rights and order.
func (e *examination) database(ctx context.Context) []debezium.Knob {
	if e.Database == nil {
		why := "there is no database to look at"
		if e.DatabaseError != nil {
			why = e.DatabaseError.Error()
		}
		e.differs("database", "give database.url, a login that may read the outbox table", "%s", why)
		return e.findings
	}
	if !e.whichDatabase(ctx) || !e.findTable(ctx) {
		return e.findings
	}
	for _, look := range []struct {
		name string
		at   func(context.Context) error
	}{
		{"table", e.lookAtTable}, {"columns", e.lookAtColumns}, {"publication", e.lookAtPublication}, {"fence", e.lookAtFence}, {"slot", e.lookAtSlot}, {"order", e.lookAtOrder},
		{"wire", e.lookAtRules},
	} {
		if err := look.at(ctx); err != nil {
			e.differs(look.name, "", "this cannot be found out: %v", err)
		}
	}
	return e.findings
}

// whichDatabase compares the names of the databases: of the same connector there are copies for tests.
func (e *examination) whichDatabase(ctx context.Context) bool {
	var name, version string
	if err := e.Database.QueryRow(ctx, "select current_database()::text, current_setting('server_version')").Scan(&name, &version); err != nil {
		e.differs("database", "", "this cannot be found out: %v", err)
		return false
	}
	switch theirs := e.connector.Database; {
	case theirs == "" || strings.Contains(theirs, "${") || theirs == name:
		e.same("database", "%s, PostgreSQL %s", name, version)
	default:
		e.differs("database", "give the database of the connector in database.url", "the connector reads the database %s, and this is %s", theirs, name)
	}
	return true
}

// findTable finds the outbox table.
func (e *examination) findTable(ctx context.Context) bool {
	rows, err := e.Database.Query(ctx, tablesQuery)
	var t table
	var columns []string
	var meant, fit []table
	if err == nil {
		wanted, wrong := e.wantedTables()
		if wrong != nil {
			e.refuse("table", "name the table with --table SCHEMA.NAME", "%v", wrong)
			rows.Close()
			return false
		}
		_, err = pgx.ForEachRow(rows, []any{&t.schema, &t.name, &t.oid, &columns}, func() error {
			if !wanted(t.String()) {
				return nil
			}
			meant = append(meant, t)
			if r := e.connector.Router; slices.Contains(columns, r.ID) && slices.Contains(columns, r.Payload) && slices.Contains(columns, r.RouteBy) {
				fit = append(fit, t)
			}
			return nil
		})
	}
	r := e.connector.Router
	switch {
	case err != nil:
		e.differs("table", "", "this cannot be found out: %v", err)
	case len(fit) == 1:
		e.table = fit[0]
	case len(fit) > 1:
		e.refuse("table", "name one with --table SCHEMA.NAME; each table is taken over by itself", "several tables are meant: %s", names(fit))
	case len(meant) > 0:
		e.refuse("table", "see that the settings are those of this database's connector", "%s has not the columns that the router reads: %s, %s and %s", names(meant), r.ID, r.Payload, r.RouteBy)
	case e.Table != "":
		e.refuse("table", "write it as SCHEMA.NAME, without quotes", "there is no table %s in this database", e.Table)
	default:
		e.refuse("table", "see that database.url is the database of the connector", "no table of this database fits table.include.list (%s)", strings.Join(e.connector.Tables, ", "))
	}
	return e.table.name != ""
}

// wantedTables reports which tables are meant, by their full names. Debezium's regular expressions must match a whole name, and
// take no notice of capitals.
func (e *examination) wantedTables() (func(name string) bool, error) {
	if e.Table != "" {
		return func(name string) bool { return name == e.Table || name == "public."+e.Table }, nil
	}
	if len(e.connector.Tables) == 0 {
		return func(string) bool { return true }, nil
	}
	var meant []*regexp.Regexp
	for _, text := range e.connector.Tables {
		re, err := regexp.Compile(`(?i)^(?:` + text + `)$`)
		if err != nil {
			return nil, errors.New("table.include.list has an expression that cannot be read here: " + err.Error())
		}
		meant = append(meant, re)
	}
	return func(name string) bool {
		return slices.ContainsFunc(meant, func(re *regexp.Regexp) bool { return re.MatchString(name) })
	}, nil
}

func names(tables []table) string {
	var all []string
	for _, t := range tables {
		all = append(all, t.String())
	}
	return strings.Join(all, ", ")
}

// lookAtTable is about what the table is, and what this login may do with it.
func (e *examination) lookAtTable(ctx context.Context) error {
	var kind, persistence, identity, owner string
	var primary, owns, reads bool
	var inserted, deleted, live int64
	var triggers []string
	if err := e.Database.QueryRow(ctx, tableQuery, e.table.oid).Scan(&kind, &persistence, &identity, &primary, &owner, &owns, &reads, &inserted, &deleted, &live, &triggers); err != nil {
		return err
	}
	switch {
	case persistence == "u":
		e.refuse("table", "alter table … set logged", "%s is unlogged: Debezium does not see its rows", e.table)
	case kind == "p":
		e.same("table", "%s, which is partitioned", e.table)
	default:
		e.same("table", "%s", e.table)
	}
	switch {
	case identity == "n" || identity == "d" && !primary:
		e.same("replica identity", "there is none; inserts need none, but while a publication sends deletes, a delete of a row fails")
	default:
		e.same("replica identity", "inserts need none")
	}
	switch {
	case owns && reads:
		e.same("rights on the table", "this login owns it or is a member of its owner, %s", owner)
	case reads:
		e.differs("rights on the table", "adopt the table as "+owner+", or as a member of it", "this login may read it, and does not own it: the trigger is its owner's to make")
	default:
		e.differs("rights on the table", "grant select on it for the comparison, and adopt it as "+owner, "this login may not read it: records are not compared")
	}
	// Statistics lag, and count from their last reset.
	if deleted > 0 && live*20 < inserted {
		e.same("deletes", "rows do not stay (%d inserts, %d deletes are counted). A trigger sees rows that their own transaction deletes, so nothing is to be changed at the writers; but records can be compared only with rows that are there", inserted, deleted)
	} else {
		e.same("deletes", "a delete of a row sends nothing")
	}
	if slices.Contains(triggers, adopt.TriggerName) {
		e.same("trigger", "the table is adopted already: its trigger %s is there", adopt.TriggerName)
	} else if len(triggers) > 0 {
		e.same("trigger", "the table has triggers of its own, which fire as before: %s", strings.Join(triggers, ", "))
	}
	return nil
}

// lookAtOrder is about commits. Debezium sends in their order, and the relay a key's events in the order of their ids.
func (e *examination) lookAtOrder(ctx context.Context) error {
	topics, err := e.routedTopics(ctx)
	e.topics = topics // also those alone that were named
	if err != nil {
		return err
	}
	var without []string
	for _, topic := range topics {
		if !e.Settings.TopicSettings(topic).CommitOrder {
			without = append(without, topic)
		}
	}
	switch {
	case e.KeysLocked:
		e.same("order", "you say that each writer locks the key before it inserts: then a key's inserts and commits have one order")
	case len(topics) == 0 && e.Settings.Outbox.CommitOrder, len(topics) > 0 && len(without) == 0:
		e.same("order", "commit_order is set: events go in the order of commits, as Debezium sends them")
	default:
		e.differs("order", "set commit_order for the topics; where each transaction locks the key before it inserts (such as by an update of the row that the key stands for), say so with --keys-locked instead",
			"Debezium sends in the order of commits. Without commit_order events of a key go in the order of inserts, which is another one where two transactions write to a key at the same time; no look at the database shows whether they do")
	}
	return nil
}

// mostTopics bounds how many topics of rows are looked for.
const mostTopics = 200

// routedTopics are the topics of the rows that are in the table, and the topics that were named.
func (e *examination) routedTopics(ctx context.Context) ([]string, error) {
	topics := slices.Clone(e.Topics)
	r := e.connector.Router
	topicSQL, err := adopt.Route{Regex: r.Regex, Replacement: r.Replacement}.SQL("v")
	if err != nil {
		return topics, nil // it is refused as a knob
	}
	column := pgx.Identifier{r.RouteBy}.Sanitize()
	rows, err := e.Database.Query(ctx, "select v, "+topicSQL+" from (select distinct v from (select "+column+"::text as v from "+pgx.Identifier{e.table.schema, e.table.name}.Sanitize()+
		" where "+column+" is not null limit 100000) looked order by 1 limit "+strconv.Itoa(mostTopics)+") looked")
	if err != nil {
		return topics, err
	}
	var value, topic string
	_, err = pgx.ForEachRow(rows, []any{&value, &topic}, func() error {
		e.routes[topic] = value
		if !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
		return nil
	})
	if refused(err) { // said in rights
		err = nil
	}
	return topics, err
}
