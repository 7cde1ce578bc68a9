package pgtest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// TestLoginIsShortAndStillNeedsThePassword: a server that is started for tests hashes the password once, and refuses
// another one.
func TestLoginIsShortAndStillNeedsThePassword(t *testing.T) {
	t.Parallel()
	s, err := StartLocal(t.Context(), os.Stderr)
	if errors.Is(err, pgserver.ErrNotFound) || errors.Is(err, errors.ErrUnsupported) {
		logtest.NotTested(t, "a server from PostgreSQL's binaries: "+err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var stored string
	if err := conn.QueryRow(t.Context(), `select rolpassword from pg_authid where rolname = current_user`).Scan(&stored); err != nil || !strings.HasPrefix(stored, "SCRAM-SHA-256$1:") {
		t.Errorf("%q, %v; want a SCRAM verifier of one iteration", stored, err)
	}
	wrong, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword(wrong.User.Username(), "wrong")
	if stranger, err := pgx.Connect(t.Context(), wrong.String()); err == nil {
		stranger.Close(t.Context())
		t.Error("a wrong password lets in")
	} else if !strings.Contains(err.Error(), "password authentication failed") {
		t.Error(err)
	}
}
