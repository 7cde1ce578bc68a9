package relaytest

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/postrider/postrider/internal/relay"
)

// skewed gives the database another clock than this process has: the relay's sessions find functions of
// these names first, and the defaults of new rows use them too.
const skewed = `
create schema skew;
create table skew.by (offset_by interval not null);
insert into skew.by values ('%s');
create function skew.clock_timestamp() returns timestamptz language sql volatile as 'select pg_catalog.clock_timestamp() + offset_by from skew.by';
create function skew.statement_timestamp() returns timestamptz language sql volatile as 'select pg_catalog.statement_timestamp() + offset_by from skew.by';
create function skew.now() returns timestamptz language sql volatile as 'select pg_catalog.now() + offset_by from skew.by';
alter table postrider.outbox_event alter column created_at set default skew.clock_timestamp();
alter table postrider.outbox_receipt alter column at set default skew.clock_timestamp()`

// TestFault42ClocksDiffer: the relay's clock and the database's are an hour apart, either way, and step.
// Delayed events, retries and holds keep the times of the database, which is the only clock that counts:
// nothing goes early, and nothing waits an hour.
func TestFault42ClocksDiffer(t *testing.T) {
	t.Parallel()
	for _, offset := range []string{"1 hour", "-1 hour"} {
		t.Run("the relay is off by "+offset, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			topic, dlq := r.broker.Topic(t, 2, nil), r.broker.Topic(t, 1, nil)
			late := topic + "-late"
			r.exec(fmt.Sprintf(skewed, offset))
			l := r.newLedger(topic, late)
			bad := l.poison(topic, "k0", 10) // refused as long as it is tried: three attempts, a wait before each
			refuseValue(r, topic, 2, bad, kerr.CorruptMessage)
			l.write(topic, 4, 5)
			l.write(late, 2, 2)
			r.exec(`insert into postrider.outbox_event (topic, key, payload, available_at) select $1, 'delayed', 'delayed|', skew.now() + interval '1 second'`, topic)
			r.startWith(dlq, options{session: map[string]string{"search_path": "skew, pg_catalog"}})
			r.until(`exists (select from postrider.outbox_hold where topic = $1)`, late)
			r.broker.CreateTopic(t, late, 1, nil)
			r.until(drained)
			// Forward, as when the relay's own clock steps back.
			r.exec(`update skew.by set offset_by = offset_by + interval '1 hour'`)
			l.write(topic, 4, 5)
			r.until(drained)

			var early, wrong int
			if err := r.pool.QueryRow(t.Context(), `select count(*) filter (where sent_at < available_at),
				count(*) filter (where first_error_at < created_at or last_error_at - created_at > interval '30 minutes')
				from postrider.v_outbox_event where key = 'delayed' or state = 'dead_lettered'`).Scan(&early, &wrong); err != nil || early+wrong > 0 {
				t.Errorf("%d events went before their time, %d failed at times that cannot be, %v", early, wrong, err)
			}
			r.exec(`delete from postrider.outbox_event where key = 'delayed'`)
			if n := len(r.broker.ReadAll(t, topic, 41)); n != 41 {
				t.Errorf("%d records, want 40 and the delayed one", n)
			}
			if n := len(r.broker.ReadAll(t, late, 4)); n != 4 {
				t.Errorf("%d records of the late topic, want 4", n)
			}
			if n := len(r.broker.ReadAll(t, dlq, 1)); n != 1 {
				t.Errorf("%d dead letters, want 1", n)
			}
		})
	}
}

// TestFault42NoTimesOfTheRelay: what the engine tells the database has no point in time in it, only
// durations; so there is nothing that a wrong clock could make wrong.
func TestFault42NoTimesOfTheRelay(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var look func(path string, typ reflect.Type)
	look = func(path string, typ reflect.Type) {
		if typ == reflect.TypeFor[time.Time]() {
			t.Errorf("%s is a point in time", path)
		}
		if seen[typ] {
			return
		}
		seen[typ] = true
		switch typ.Kind() {
		case reflect.Struct:
			for i := range typ.NumField() {
				look(path+"."+typ.Field(i).Name, typ.Field(i).Type)
			}
		case reflect.Slice, reflect.Pointer, reflect.Array:
			look(path, typ.Elem())
		case reflect.Map:
			look(path, typ.Key())
			look(path, typ.Elem())
		}
	}
	for _, port := range []reflect.Type{reflect.TypeFor[relay.Store](), reflect.TypeFor[relay.Leadership](), reflect.TypeFor[relay.LetterClaim]()} {
		for i := range port.NumMethod() {
			m := port.Method(i)
			for n := range m.Type.NumIn() {
				if in := m.Type.In(n); in.Kind() != reflect.Interface {
					look(port.Name()+"."+m.Name, in)
				}
			}
		}
	}
	if !seen[reflect.TypeFor[relay.HoldChange]()] || !seen[reflect.TypeFor[relay.Exception]()] {
		t.Error("the settlement was not looked at")
	}
}
