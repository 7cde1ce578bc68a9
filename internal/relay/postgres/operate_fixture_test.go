package postgres

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/relay"
)

// refused checks that an error says no, and why.
func (f *fixture) refused(err error, kind error, parts ...string) {
	f.Helper()
	if !errors.Is(err, kind) {
		f.Errorf("the error is %v, want one that is %v", err, kind)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			f.Errorf("%q is not in %q", part, err)
		}
	}
}

// byHand makes a request in a transaction of its own, as package actions does.
func byHand[T any](f *fixture, request func(tx pgx.Tx) (T, error)) (got T, err error) {
	err = pgx.BeginTxFunc(f.Context(), f.store.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		got, err = request(tx)
		return err
	})
	return got, err
}

func (f *fixture) tryRelease(hold int64) (Released, error) {
	return byHand(f, func(tx pgx.Tx) (Released, error) { return f.store.Release(f.Context(), tx, hold) })
}

func (f *fixture) tryGiveUp(hold int64) (GaveUp, error) {
	return byHand(f, func(tx pgx.Tx) (GaveUp, error) { return f.store.GiveUp(f.Context(), tx, hold) })
}

func (f *fixture) trySkip(id int64, reason string) error {
	_, err := byHand(f, func(tx pgx.Tx) (struct{}, error) { return struct{}{}, f.store.Skip(f.Context(), tx, id, reason) })
	return err
}

func (f *fixture) tryRedrive(id int64) error {
	_, err := byHand(f, func(tx pgx.Tx) (struct{}, error) { return struct{}{}, f.store.Redrive(f.Context(), tx, id) })
	return err
}

// halt gives up the first event of a key that is behind the position, as the last attempt of a key that halts, and parks
// the others of the key behind it. It returns the hold.
func (f *fixture) halt(key string) int64 {
	f.Helper()
	d := f.leader()
	var r relay.Receipt
	hold := f.holdID()
	page := f.read(d, nil, d.position)
	for i := range page.Events {
		e := &page.Events[i]
		switch {
		case string(e.Key) != key:
		case r.Holds == nil:
			r.Exceptions = append(r.Exceptions, exhausted(e.ID)...)
			r.Holds = []relay.HoldChange{{ID: hold, New: true, Scope: relay.ScopeKey, Topic: "t", Key: e.Key, Cause: relay.CauseHalted, Code: "X", Error: "why",
				EventID: e.EventID, ProbeIn: relay.Forever}}
		default:
			r.Exceptions = append(r.Exceptions, parked(hold, e.ID)...)
		}
	}
	f.pass(r)
	return hold
}

// buried settles the dead letters of exhausted events.
func (f *fixture) buried(ids ...int64) {
	f.Helper()
	f.done(f.letters(32).Settle(f.Context(), sent(nil, ids...)))
}

// theHold describes the only hold.
func (f *fixture) theHold() string {
	f.Helper()
	return value[string](f, `select concat_ws(' ', scope, cause, asked, case when draining then 'draining' end,
		case when next_probe_at = 'infinity' then 'never' when next_probe_at <= clock_timestamp() then 'due' else 'later' end)
		from postrider.outbox_hold`)
}
