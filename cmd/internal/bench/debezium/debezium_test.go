package debezium

import (
	"slices"
	"strings"
	"testing"
)

func TestConnector(t *testing.T) {
	t.Parallel()
	c := Connector{Name: "bench_1", Database: `postgres://u%5Cr:p%5Css@127.0.0.1:5433/bench_1?sslmode=disable`, Publication: "bench", Table: "outbox"}
	plain, err := c.connector()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"database.hostname=127.0.0.1", "database.port=5433", "database.dbname=bench_1", `database.password=p\\ss`,
		"slot.name=bench_1", "publication.name=bench", "table.include.list=public.outbox"} {
		if !slices.Contains(plain, want) {
			t.Errorf("%q is missing", want)
		}
	}
	c.Tuned = true
	tuned, err := c.connector()
	if err != nil || len(tuned) <= len(plain) || !slices.Equal(tuned[:len(plain)], plain) {
		t.Errorf("tuned is not the same and more: %v", err)
	}
	c.Database = "postgres://[x"
	if _, err := c.connector(); err == nil || !strings.Contains(err.Error(), "URL") {
		t.Errorf("a wrong URL: %v", err)
	}
}

// The version that tables name is the one that is resolved.
func TestVersion(t *testing.T) {
	t.Parallel()
	if !strings.Contains(string(pom), "<debezium.version>"+Version+"<") {
		t.Errorf("pom.xml has another version than %s", Version)
	}
}
