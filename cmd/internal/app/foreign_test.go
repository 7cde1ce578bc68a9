package app

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/pgforeign"
)

// TestServersThatAreNoPostgreSQL are refused by name, whatever they call themselves in server_version.
func TestServersThatAreNoPostgreSQL(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reported map[string]string
		want     string
	}{
		"CockroachDB": {map[string]string{"server_version": "18.0.0", "crdb_version": "CockroachDB CCL v26.3.1 (x86_64-pc-linux-gnu)"}, "runs CockroachDB CCL v26.3.1 (x86_64-pc-linux-gnu): it is no PostgreSQL"},
		"YugabyteDB":  {map[string]string{"server_version": "15.12-YB-2025.2.0.0-b0"}, "runs PostgreSQL 15.12-YB-2025.2.0.0-b0: it is YugabyteDB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := pgforeign.Start(t, pgforeign.Server{Reports: c.reported})
			_, err := Connect(t.Context(), config.Database{URL: config.DatabaseURL("postgres://u:p@" + address + "/d?sslmode=disable")})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "PostgreSQL 14 or newer is needed") {
				t.Errorf("error %v", err)
			}
		})
	}
}
