package postgres

import (
	"slices"
	"testing"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestEnumsMatch compares the Go constants with the types of the schema.
func TestEnumsMatch(t *testing.T) {
	t.Parallel()
	conn := pgtest.New(t).Conn(t)
	values := func(sqlType string) (labels []string) {
		if err := conn.QueryRow(t.Context(), "select enum_range(null::postrider."+sqlType+")::text[]").Scan(&labels); err != nil {
			t.Fatal(err)
		}
		return labels
	}
	status := func(s dlq.Status) string { return string(s) }
	if got, want := column(dlq.Statuses(), status), values("dlq_resolution_status"); !slices.Equal(got, want) {
		t.Errorf("statuses %v, the schema has %v", got, want)
	}
	reason := func(r dlq.Reason) string { return string(r) }
	if got, want := column(dlq.Reasons(), reason), values("dlq_reason"); !slices.Equal(got, want) {
		t.Errorf("reasons %v, the schema has %v", got, want)
	}
}
