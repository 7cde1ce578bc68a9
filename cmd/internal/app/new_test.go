package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// What cannot work is refused with what to do, and nothing is left open (goleak).
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	const password = "s3ntinel"
	migrated, empty := pgtest.New(t).URL, pgtest.NewEmpty(t).URL
	wrongPassword, _ := url.Parse(migrated)
	wrongPassword.User = url.UserPassword(wrongPassword.User.Username(), password)
	for name, c := range map[string]struct {
		database string
		adjust   func(*config.Config)
		want     []string
	}{
		"no database":       {adjust: func(c *config.Config) { c.Database.URL = "" }, want: []string{"database.url is not set", "DATABASE_URL"}},
		"no brokers":        {adjust: func(c *config.Config) { c.Kafka.Brokers = nil }, want: []string{"kafka.brokers is not set"}},
		"nothing listens":   {database: fmt.Sprintf("postgres://u:%s@127.0.0.1:%d/d", password, freePort(t)), want: []string{"cannot be reached", "check that PostgreSQL runs there"}},
		"wrong password":    {database: wrongPassword.String(), want: []string{"cannot be reached", "check user and password"}},
		"unknown database":  {database: strings.Replace(migrated, "/postrider_test", "/nowhere", 1), want: []string{"cannot be reached", "create the database"}},
		"without schema":    {database: empty, want: []string{"lacks audit/0001_baseline, outbox/0001_baseline", "postrider migrate up", "--migrate"}},
		"address in use":    {adjust: func(c *config.Config) { c.HTTP.Address = taken.Addr().String() }, want: []string{taken.Addr().String(), "another http.address"}},
		"bad configuration": {adjust: func(c *config.Config) { c.Kafka.Compression = "brotli" }, want: []string{"brotli"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.database == "" {
				c.database = migrated
			}
			cfg := settings(t, c.database, "127.0.0.1:9")
			if c.adjust != nil {
				c.adjust(&cfg)
			}
			a, err := New(t.Context(), Options{Config: cfg})
			if err == nil {
				t.Error("accepted", a.Stop(context.Background()))
				return
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in: %v", part, err)
				}
			}
			if strings.Contains(err.Error(), password) {
				t.Errorf("the password is in: %v", err)
			}
		})
	}
}

func TestMigrateAtStart(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	a, err := New(t.Context(), Options{Config: settings(t, db.URL, "127.0.0.1:9"), Migrate: true, Roles: []Role{HTTP}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(t.Context()); err != nil { // it never ran
		t.Error(err)
	}
	conn := db.Conn(t)
	waitRow(t, conn, "migrated", `select to_regclass('postrider.outbox_event') is not null`)
	// A newer release migrated this database; old processes go on.
	if _, err := conn.Exec(t.Context(), `insert into postrider.schema_migration (room, version, name, checksum)
		select 'outbox', max(version) + 1, 'future', 'x' from postrider.schema_migration where room = 'outbox'`); err != nil {
		t.Fatal(err)
	}
	for _, migrate := range []bool{false, true} {
		a, err := New(t.Context(), Options{Config: settings(t, db.URL, "127.0.0.1:9"), Migrate: migrate})
		if err != nil {
			t.Fatalf("a database that is ahead: %v", err)
		}
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := conn.Exec(t.Context(), `update postrider.schema_migration set checksum = 'edited' where version = 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), Options{Config: settings(t, db.URL, "127.0.0.1:9")}); !errors.Is(err, migrations.ErrChanged) {
		t.Errorf("a database made by other migrations: %v", err)
	}
}
