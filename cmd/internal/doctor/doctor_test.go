package doctor

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestHealthy: where all is as it should be, every check says so; only that no relay and no collector runs, and what this
// server has no extension for, is worth a word. On kfake and on a real broker.
func TestHealthy(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		s := newSubject(t, pgtest.New(t), b)
		r := s.examine(t, nil)
		if rest := r.rest("state collector", "state leader", "database pg_trgm", "topics writers of dead letters"); !r.OK || len(rest) > 0 {
			t.Errorf("not well: %+v", rest)
		}
		r.want(t, "state", "leader", Warning, "no relay leads the outbox")
		r.want(t, "state", "collector", Warning, "no member of the group")
		made := map[string]bool{}
		for _, f := range r.Findings {
			made[f.Group+" "+f.Check] = true
			if f.Says == "" {
				t.Errorf("%s, %s says nothing", f.Group, f.Check)
			}
		}
		for _, c := range checks() {
			if !made[c.group+" "+c.name] {
				t.Errorf("%s, %s was not made", c.group, c.name)
			}
		}
	})
}

// TestBeforeTheSchema: with Pre the doctor asks everything that can be asked, and nothing else. Without Pre, a missing
// schema fails once and the rest is skipped.
func TestBeforeTheSchema(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.NewEmpty(t), kafkatest.Kfake(t))
	r := s.examine(t, func(c *Config) { c.Pre = true })
	if rest := r.rest("database pg_trgm"); !r.OK || len(rest) > 0 {
		t.Errorf("not well: %+v", rest)
	}
	r.want(t, "database", "right to migrate", OK, "may create it")
	r.want(t, "topics", "existence", OK)
	for _, f := range r.Findings {
		if f.Group == "schema" || f.Group == "state" {
			t.Errorf("asked too early: %+v", f)
		}
	}
	r = s.examine(t, nil)
	r.want(t, "schema", "version", Failed, "postrider migrate up")
	r.want(t, "state", "backlog", Skipped)
	if r.OK || r.Failed != 1 {
		t.Errorf("%d failed, want 1: %+v", r.Failed, r.rest())
	}
}

// TestNobodyThere: without a database and without brokers two checks fail and say so, settings are checked, and nothing hangs.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.NewEmpty(t), kafkatest.Kfake(t))
	s.flags["database.url"] = "postgres://u:s3ntinel@127.0.0.1:1/d"
	s.flags["kafka.brokers"] = "127.0.0.1:1"
	r := s.examine(t, nil)
	if r.Failed != 2 || r.Skipped != len(checks())-5 { // three look at the settings alone
		t.Errorf("%d failed, %d skipped: %+v", r.Failed, r.Skipped, r.Findings)
	}
	for _, f := range r.Findings {
		if f.Group == "database" && f.Check == "connection" {
			if f.Verdict != Failed || f.Says == "" {
				t.Errorf("connection: %+v", f)
			}
			if contains(f.Says, "s3ntinel") {
				t.Errorf("a password is shown: %s", f.Says)
			}
		}
	}
	r.want(t, "kafka", "brokers", Failed, "127.0.0.1:1")
	r = s.examine(t, func(c *Config) { c.Kafka.Close(); c.Kafka = nil })
	r.want(t, "kafka", "brokers", Failed, "not set")
}

// TestRights: each role is enough for itself, and a missing right is named.
func TestRights(t *testing.T) {
	t.Parallel()
	s := newSubject(t, pgtest.New(t), kafkatest.Kfake(t))
	if err := migrations.ApplyRoles(t.Context(), s.conn); err != nil {
		t.Fatal(err)
	}
	for _, role := range Roles() {
		s.asRole(t, "postrider_"+role)
		for _, wanted := range []string{"", role} {
			s.examine(t, func(c *Config) { c.Role = wanted }).want(t, "schema", "rights", OK, "postrider_"+role)
		}
	}
	// What a relay's login may not look at is no fault of it, and needs no grant.
	s.asRole(t, "postrider_relay")
	for _, f := range s.examine(t, func(c *Config) { c.Role = "relay" }).Findings {
		if contains(f.Hint, "postrider_operator") {
			t.Errorf("with the role relay: %+v", f)
		}
	}
	s.asRole(t, "postrider_operator")
	s.examine(t, func(c *Config) { c.Role = "relay" }).want(t, "schema", "rights", Failed, "lacks", "postrider_relay", "grant postrider_relay")

	s.exec(t, `revoke insert on postrider.outbox_receipt from postrider_relay; revoke update on sequence postrider.outbox_notifier from postrider_relay`)
	s.asRole(t, "postrider_relay")
	s.examine(t, nil).want(t, "schema", "rights", Failed, "lacks 2", "insert on postrider.outbox_receipt", "update on postrider.outbox_notifier")
	s.exec(t, `revoke usage on schema postrider from postrider_relay`)
	s.examine(t, nil).want(t, "schema", "version", Failed, "may not use the schema", "postrider migrate roles")
}

// TestServices: a service that runs PostgreSQL for others is known by its settings, and the doctor says what differs there.
func TestServices(t *testing.T) {
	t.Parallel()
	for name, has := range map[string]string{
		"Aurora":     `create function aurora_version() returns text language sql as $$select '16.4'$$; alter database %s set rds.extensions = 'citext'`,
		"Amazon RDS": `alter database %s set rds.extensions = 'citext'`,
		"Azure":      `alter database %s set azure.extensions = 'citext'`,
		"Neon":       `alter database %s set neon.timeline_id = 'de200bd42b49cc1814412c7e592dd6e9'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmpty(t)
			conn := db.Conn(t)
			if _, err := conn.Exec(t.Context(), strings.ReplaceAll(has, "%s", db.Name)); err != nil {
				t.Fatal(err)
			}
			p := &patient{Config: Config{Database: db.Pool(t)}}
			got, err := checkService(t.Context(), p)
			if err != nil || len(got) != 1 || got[0].verdict != OK || !strings.HasPrefix(got[0].says, name+": ") {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	for name, differs := range services {
		if !strings.Contains(serviceQuery, "then '"+name+"'") || differs == "" {
			t.Errorf("%s is not found, or nothing is said of it", name)
		}
	}
	if found := strings.Count(serviceQuery, " then "); found != len(services) {
		t.Errorf("%d services are found, and of %d is said what differs", found, len(services))
	}
}
