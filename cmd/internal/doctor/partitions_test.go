package doctor

import (
	"testing"

	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/migrations/pgtest"
	"github.com/postrider/postrider/relay/kafka/kafkatest"
	"github.com/postrider/postrider/relay/postgres"
)

// TestRightsOnPartitions: those who may do everything still may when the outbox is partitioned, and when partitions
// were added; somebody who may not read the default one is told so.
func TestRightsOnPartitions(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	if err := migrations.ApplyRoles(t.Context(), s.conn); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Partition(t.Context(), s.conn, postgres.PartitionOptions{Rows: 10, Gap: -1}); err != nil {
		t.Fatal(err)
	}
	complete := func(when string) {
		t.Helper()
		for _, role := range []string{"relay", "operator"} {
			s.asRole(t, "postrider_"+role)
			r := s.examine(t, func(c *Config) { c.Role = role })
			r.want(t, "schema", "rights", OK, "postrider_"+role)
			if t.Failed() {
				t.Fatalf("as the %s, %s", role, when)
			}
		}
	}
	complete("partitioned")
	s.exec(t, `insert into postrider.outbox_event (topic) select 't' from generate_series(1, 25)`)
	s.exec(t, `set role postrider_relay`)
	if n := pgtest.Value[int](t, s.conn, `select postrider.outbox_add_partitions()`); n != 2 {
		t.Errorf("%d partitions were added, want 2", n)
	}
	s.exec(t, `reset role`)
	complete("with new partitions")
	s.exec(t, `revoke select on postrider.outbox_event_default from postrider_relay`)
	s.asRole(t, "postrider_relay")
	s.examine(t, func(c *Config) { c.Role = "relay" }).want(t, "schema", "rights", Failed, "select on postrider")
	if err := migrations.ApplyRoles(t.Context(), s.conn); err != nil {
		t.Fatal(err)
	}
	complete("after the roles were applied again")
}
