package postgres

import (
	"errors"
	"strings"

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
