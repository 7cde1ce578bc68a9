package doctor

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgforeign"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestForeignServers: a server that speaks PostgreSQL's protocol and calls itself a new PostgreSQL when a client connects is
// refused by what it answers to select version(), and asked nothing else.
func TestForeignServers(t *testing.T) {
	t.Parallel()
	reports := map[string]string{"server_version": "18.2", "standard_conforming_strings": "on", "client_encoding": "UTF8"}
	for version, says := range map[string]string{
		"CockroachDB CCL v26.3.1 (x86_64-pc-linux-gnu)":               "neither LISTEN",
		"PostgreSQL 15.12-YB-2025.2.0.0-b0 on x86_64-pc-linux-gnu":    "cached in each node",
		"CrateDB 5.9.0 (built 1234567/2024-10-01T00:00:00Z, Linux)":   "another program",
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.77467":   "another program",
		"PostgreSQL 13.22 on x86_64-pc-linux-gnu, compiled by gcc 12": "too old",
	} {
		t.Run(strings.Fields(version)[0]+" "+says, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, pgtest.NewEmpty(t), kafkatest.Kfake(t))
			s.flags["database.url"] = "postgres://u:p@" + pgforeign.Start(t, pgforeign.Server{Version: version, Reports: reports}) + "/d?sslmode=disable"
			s.flags["database.pooler"] = "none" // a look at a pooler asks something else
			r := s.examine(t, func(c *Config) { c.Pre = true })
			r.want(t, "database", "connection", Failed, says, "PostgreSQL 14 or newer is needed", strings.Fields(version)[0])
			r.want(t, "database", "version", Skipped)
			if r.Failed != 1 {
				t.Errorf("%d failed: %+v", r.Failed, r.Findings)
			}
		})
	}
}
