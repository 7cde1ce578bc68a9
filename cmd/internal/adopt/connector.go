package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Connector is what the database knows of the connector that sends a table's rows.
type Connector struct {
	// Slot is its replication slot, and Publication the publication that it reads.
	Slot, Publication string
}

// fill finds out what was not given: the only publication that has the table, and the only slot that is read by pgoutput.
func (c Connector) fill(ctx context.Context, db querier, t *Table) (Connector, error) {
	if c.Publication == "" {
		names, err := t.publications(ctx, db)
		if err != nil {
			return c, err
		}
		if len(names) != 1 {
			return c, fmt.Errorf("%s is in %d publications%s: name the connector's with --publication", t.Name, len(names), list(names))
		}
		c.Publication = names[0]
	}
	if c.Slot == "" {
		rows, err := db.Query(ctx, `select slot_name::text from pg_catalog.pg_replication_slots where database = current_database() and plugin = 'pgoutput' and not temporary order by 1`)
		var names []string
		if err == nil {
			names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			return c, fmt.Errorf("read the replication slots: %w", err)
		}
		if len(names) != 1 {
			return c, fmt.Errorf("this database has %d replication slots of pgoutput%s: name the connector's with --slot", len(names), list(names))
		}
		c.Slot = names[0]
	}
	return c, nil
}

func list(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// slot is the state of a replication slot.
type slot struct {
	plugin, database, status string
	confirmed                string
	active                   bool
	// done says that the slot has confirmed the fence.
	done bool
}

const readSlot = `select plugin::text, database::text, coalesce(wal_status, ''), coalesce(confirmed_flush_lsn::text, ''), active,
	coalesce(confirmed_flush_lsn >= nullif($2, '')::pg_lsn, false)
from pg_catalog.pg_replication_slots where slot_name = $1`

const otherSlots = `select coalesce(array_agg(slot_name::text order by slot_name), '{}') from pg_catalog.pg_replication_slots
where plugin = 'pgoutput' and database = current_database()`

// state reads the slot, and refuses one that cannot be the connector's.
func (c Connector) state(ctx context.Context, db querier, fence string) (slot, error) {
	var s slot
	var plugin, database *string
	err := db.QueryRow(ctx, readSlot, c.Slot, fence).Scan(&plugin, &database, &s.status, &s.confirmed, &s.active, &s.done)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		var others []string
		if err := db.QueryRow(ctx, otherSlots).Scan(&others); err != nil {
			return s, fmt.Errorf("there is no replication slot %s; read the others: %w", c.Slot, err)
		}
		if len(others) > 0 {
			return s, fmt.Errorf("there is no replication slot %s; this database has the slots %s of pgoutput: give the connector's; if it is none of these and gone, and the topics have every row that was written before, --confirmed goes on without it", c.Slot, strings.Join(others, ", "))
		}
		return s, fmt.Errorf("there is no replication slot %s: what its connector had not sent is not to be had from it any more; where the topics have every row that was written before, --confirmed goes on without the slot", c.Slot)
	case err != nil:
		return s, fmt.Errorf("read the replication slot %s: %w", c.Slot, err)
	case plugin == nil || *plugin != "pgoutput":
		return s, fmt.Errorf("the replication slot %s is not of pgoutput, and a table cannot be taken out of what it sends: move the connector to plugin.name=pgoutput first", c.Slot)
	case s.status == "lost":
		return s, fmt.Errorf("the replication slot %s is lost (wal_status): what its connector had not sent is gone from the write-ahead log; where the topics have every row that was written before, --confirmed goes on without the slot", c.Slot)
	}
	s.plugin, s.database = *plugin, *database
	return s, nil
}

// inserts counts the rows of the table that the slot's connector has not confirmed and that are before the fence. It reads a
// copy of the slot as the connector would: a connector that has nothing more to send does not move its slot.
func (c Connector) inserts(ctx context.Context, conn *pgx.Conn, t *Table, fence string) (int, error) {
	name := fmt.Sprintf("postrider_cutover_%d", conn.PgConn().PID())
	if _, err := conn.Exec(ctx, `select pg_catalog.pg_copy_logical_replication_slot($1::name, $2::name, true)`, c.Slot, name); err != nil {
		return 0, err
	}
	// The first byte of a change says what it is, the next four the table.
	var n int
	err := conn.QueryRow(ctx, `select count(*) from pg_catalog.pg_logical_slot_peek_binary_changes($1, $2::pg_lsn, null, 'proto_version', '1', 'publication_names', $3)
		where get_byte(data, 0) = ascii('I') and substr(data, 2, 4) in (select int4send(i.relid::oid::bigint::bit(32)::integer) from pg_catalog.pg_partition_tree($4::oid::regclass) i union select int4send($4::bigint::bit(32)::integer))`,
		name, fence, quote(c.Publication), t.oid).Scan(&n)
	_, dropErr := conn.Exec(context.WithoutCancel(ctx), `select pg_catalog.pg_drop_replication_slot($1)`, name)
	return n, errors.Join(err, dropErr)
}

// published is what a publication has to do with a table.
type published struct {
	// there says that the table's rows are sent by it.
	there bool
	// wide says that it has all tables, of the database or of a schema, so that one table cannot leave it.
	wide bool
	// owned says that the login may change it.
	owned bool
}

// published reads it, and refuses a publication that no outbox is sent by. A table that a view has the name of counts itself.
func (c Connector) published(ctx context.Context, db querier, t *Table) (p published, err error) {
	var inserts, direct bool
	err = db.QueryRow(ctx, `select pubinsert, pg_has_role(pubowner, 'usage'), exists (select from pg_catalog.pg_publication_rel r where r.prpubid = p.oid and r.prrelid = $2)
		from pg_catalog.pg_publication p where pubname = $1`, c.Publication, t.oid).Scan(&inserts, &p.owned, &direct)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return p, fmt.Errorf("there is no publication %s in this database", c.Publication)
	case err != nil:
		return p, fmt.Errorf("read the publication %s: %w", c.Publication, err)
	case !inserts:
		return p, fmt.Errorf("the publication %s does not publish inserts: it is not the one that an outbox is sent by", c.Publication)
	}
	names, err := t.publications(ctx, db)
	p.there = direct || slices.Contains(names, c.Publication)
	// The partitions of a table stand there in its place.
	p.wide = p.there && !direct && t.kind != "p"
	return p, err
}

func (c Connector) notOwned() error {
	return fmt.Errorf("the login does not own the publication %s, and may not change which tables it has: connect as its owner", c.Publication)
}
