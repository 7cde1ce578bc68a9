package app

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/loop"
)

// Processes that share sources know of one another by advisory locks in one database, the home: that of database.url, else
// the one of the first source by name. A lock ends with its process, so the list of locks is the list of the living. It is
// a hint about who should lead what, and may be wrong: the lock of the leader in the source's own database decides.
const (
	memberClass = 0x506F7353 // "PosS"
	// memberPause is how often the list is read.
	memberPause = 300 * time.Millisecond
	// memberLimit bounds one reading of the list.
	memberLimit = 2 * time.Second
	// memberRenew is how old the transaction becomes that has the lock. A pooler in transaction mode keeps no session.
	memberRenew = 30 * time.Second
	// memberMisses is how many readings in a row must lack a process that is taken for gone: a lock that is renewed is away
	// for a moment.
	memberMisses = 2
)

const membersQuery = `select l.objid::bigint from pg_catalog.pg_locks l
	where l.locktype = 'advisory' and l.classid = 1349481299::oid and l.objsubid = 2 and l.granted
	  and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())`

// members is the list of the processes that live.
type members struct {
	log  *slog.Logger
	self uint32

	mu     sync.Mutex
	all    []uint32 // ascending, this process included
	away   time.Time
	misses map[uint32]int
}

func newMembers(log *slog.Logger) *members {
	self := 1 + rand.Uint32N(1<<31-1) // as an int4 of PostgreSQL
	return &members{log: log, self: self, all: []uint32{self}, misses: map[uint32]int{}}
}

// list returns the processes that live, as far as is known, and since when the home does not answer; zero where it does.
func (m *members) list() ([]uint32, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all), m.away
}

// saw takes the processes that a reading found.
func (m *members) saw(found []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.away.IsZero() {
		m.log.Info("the other processes can be seen again", "away", time.Since(m.away).Round(time.Millisecond).String())
	}
	m.away = time.Time{}
	now := []uint32{m.self}
	for _, id := range found {
		m.misses[id] = 0
		if id != m.self {
			now = append(now, id)
		}
	}
	for _, id := range m.all {
		if slices.Contains(now, id) {
			continue
		}
		if m.misses[id]++; m.misses[id] < memberMisses {
			now = append(now, id)
		} else {
			delete(m.misses, id)
		}
	}
	slices.Sort(now)
	if !slices.Equal(now, m.all) {
		m.log.Info("the processes that share the sources have changed", "processes", len(now))
	}
	m.all = now
}

// lost notes that the home does not answer. The list stays as it was.
func (m *members) lost(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away.IsZero() {
		m.away = time.Now()
		m.log.Warn("the database in which processes see one another does not answer; each goes on with what it leads", "err", err)
	}
}

// run keeps this process in the list, and reads the list, until ctx ends. home returns the database to use; false where there
// is nothing to share.
func (m *members) run(ctx context.Context, home func() (config.Database, bool)) {
	for ctx.Err() == nil {
		database, shared := home()
		if !shared {
			_ = loop.Sleep(ctx, memberPause)
			continue
		}
		err := m.stay(ctx, database, home)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.lost(err)
		}
		_ = loop.Sleep(ctx, memberPause)
	}
}

// stay is in the list of one home, until that fails or the home is another one.
func (m *members) stay(ctx context.Context, database config.Database, home func() (config.Database, bool)) error {
	conn, err := Connect(ctx, database)
	if err != nil {
		return err
	}
	defer Disconnect(ctx, conn)
	var old time.Time
	for {
		if now, shared := home(); !shared || now != database {
			return nil
		}
		bounded, cancel := context.WithTimeout(ctx, memberLimit)
		if time.Now().After(old) {
			if err = m.lock(bounded, conn); err == nil {
				old = time.Now().Add(memberRenew)
			}
		}
		var found []uint32
		if err == nil {
			found, err = readMembers(bounded, conn)
		}
		cancel()
		if err != nil {
			return err
		}
		m.saw(found)
		if err := loop.Sleep(ctx, memberPause); err != nil {
			return err
		}
	}
}

// lock begins a transaction that has the lock of this process. It has no transaction id and keeps no snapshot, so it keeps
// no vacuum back.
func (m *members) lock(ctx context.Context, conn *pgx.Conn) error {
	sql := "rollback; begin isolation level read committed; set local idle_in_transaction_session_timeout = '10s'"
	if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	var locked bool
	err := conn.QueryRow(ctx, "select pg_try_advisory_xact_lock("+strconv.Itoa(memberClass)+", $1)", pgx.QueryExecModeSimpleProtocol, int32(m.self)).Scan(&locked)
	if err == nil && !locked {
		err = errors.New("another process has the same number; this one draws a new number when it is started again")
	}
	return err
}

func readMembers(ctx context.Context, conn *pgx.Conn) ([]uint32, error) {
	rows, err := conn.Query(ctx, membersQuery, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (uint32, error) {
		var id int64
		err := row.Scan(&id)
		return uint32(id), err
	})
}

// assign says which process leads which source. All processes with the same lists say the same. Each has a rank for each
// source (rendezvous hashing), so that one that comes or goes moves few sources; none has more than a tenth over its share.
func assign(names []string, processes []uint32) map[string]uint32 {
	owners := make(map[string]uint32, len(names))
	most := (11*len(names) + 10*len(processes) - 1) / (10 * len(processes))
	load := map[uint32]int{}
	for _, name := range slices.Sorted(slices.Values(names)) {
		var best uint32
		var high uint64
		for _, p := range processes {
			if rank := rankOf(name, p); load[p] < most && (best == 0 || rank > high) {
				best, high = p, rank
			}
		}
		owners[name] = best
		load[best]++
	}
	return owners
}

func rankOf(name string, process uint32) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strconv.FormatUint(uint64(process), 10) + "/" + name))
	// The last bytes of a text change few bits of the hash; mixed, they change all (the finalizer of MurmurHash3).
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
