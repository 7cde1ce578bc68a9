package app

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestReadyAsksForRights: a login that lost its role answers, and can do nothing; so it is not ready. The log says what it
// lacks, and it is ready again when it has that.
func TestReadyAsksForRights(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	conn := db.Conn(t)
	if err := migrations.ApplyRoles(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	address, _ := db.Login(t, "postrider_relay")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Buffer
	logger, err := obs.NewLogger(&log, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	a := run(t, Options{Config: settings(t, address, broker.Addrs...), Logger: logger})
	waitReady(t, a)
	for _, change := range []struct{ revoke, grant, says string }{
		{"revoke postrider_relay from " + u.User.Username(), "grant postrider_relay to " + u.User.Username(), "permission denied for schema postrider"},
		{"revoke insert on postrider.outbox_receipt from postrider_relay", "grant insert on postrider.outbox_receipt to postrider_relay", "the login lacks rights: insert on postrider.outbox_receipt; grant it postrider_relay"},
	} {
		if _, err := conn.Exec(t.Context(), change.revoke); err != nil {
			t.Fatal(err)
		}
		eventually(t, change.revoke, func() (bool, string) {
			status, body := readyz(t, a)
			return status == http.StatusServiceUnavailable && !strings.Contains(body, "outbox_receipt"), body
		})
		eventually(t, "the log says why", func() (bool, string) {
			return strings.Contains(log.String(), change.says), log.String()
		})
		if _, err := conn.Exec(t.Context(), change.grant); err != nil {
			t.Fatal(err)
		}
		waitReady(t, a)
	}
}
