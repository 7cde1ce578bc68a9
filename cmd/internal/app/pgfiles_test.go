package app

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// Certificates, keys and passwords in the files that database.url names are read again for each connection, by the
// pools of the relay and by all others: a server that believes another authority from now on is reached again when
// the files have what it asks for.
func TestFilesOfTheDatabaseURLAreReadAgain(t *testing.T) {
	t.Parallel()
	server, err := pgserver.Start(t.Context(), pgserver.Options{Settings: map[string]string{"fsync": "off"}, TempDir: pgserver.MemoryDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	// The server writes its own files: they must be its user's, who is another where tests run as root.
	inData := func(name string, content []byte) {
		t.Helper()
		exec(fmt.Sprintf(`copy (select '%s') to program 'umask 077; base64 -d > %s'`, base64.StdEncoding.EncodeToString(content), name))
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	believe := func(a *kafkatest.Authority) {
		cert, key := a.Issue(t, "server", time.Hour)
		inData("server.crt", cert)
		inData("server.key", key)
		inData("root.crt", a.PEM())
		exec("select pg_reload_conf()")
	}
	issue := func(a *kafkatest.Authority) {
		cert, key := a.Issue(t, "by_certificate", time.Hour) // the user's name, as cert in pg_hba.conf wants it
		putFile(t, file("ca.pem"), a.PEM())
		putFile(t, file("cert.pem"), cert)
		putFile(t, file("key.pem"), key)
	}
	password := func(to string) {
		exec(fmt.Sprintf("alter role by_password password '%s'", to))
		putFile(t, file("pgpass"), []byte("127.0.0.1:*:*:by_password:"+to+"\n"))
	}
	exec("create role by_certificate login")
	exec("create role by_password login")
	exec("alter system set ssl = on")
	exec("alter system set ssl_ca_file = 'root.crt'")
	inData("pg_hba.conf", []byte("hostssl all by_certificate 127.0.0.1/32 cert\nhost all all 127.0.0.1/32 scram-sha-256\n"))
	old, renewed := kafkatest.NewAuthority(t), kafkatest.NewAuthority(t)
	password("first-sentinel")
	issue(old)
	believe(old)

	address, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	of := func(user string, parameters url.Values) string {
		u := *address
		u.User, u.RawQuery = url.User(user), parameters.Encode()
		return u.String()
	}
	byCertificate := of("by_certificate", url.Values{"sslmode": {"verify-full"}, "sslrootcert": {file("ca.pem")}, "sslcert": {file("cert.pem")}, "sslkey": {file("key.pem")}})
	byPassword := of("by_password", url.Values{"sslmode": {"disable"}, "passfile": {file("pgpass")}})
	// as returns the user of a new connection.
	as := func(pool *pgxpool.Pool) (user string, err error) {
		pool.Reset()
		err = pool.QueryRow(t.Context(), "select current_user").Scan(&user)
		return user, err
	}
	pools := func(address string) map[string]*pgxpool.Pool {
		all := map[string]*pgxpool.Pool{}
		eventually(t, "the server has its files", func() (bool, string) {
			one, err := OpenPool(t.Context(), config.Database{URL: config.DatabaseURL(address)}, 2)
			if err != nil {
				return false, err.Error()
			}
			all["service"] = one
			return true, ""
		})
		two, err := postgres.NewPool(t.Context(), address, postgres.Options{MaxConns: 2})
		if err != nil {
			t.Fatal(err)
		}
		all["relay"] = two
		for _, p := range all {
			t.Cleanup(p.Close)
		}
		return all
	}
	certified, known := pools(byCertificate), pools(byPassword)
	for name := range certified {
		a, err1 := as(certified[name])
		b, err2 := as(known[name])
		if err := errors.Join(err1, err2); err != nil || a != "by_certificate" || b != "by_password" {
			t.Fatalf("%s: %q, %q, %v", name, a, b, err)
		}
	}

	believe(renewed)
	password("second-sentinel")
	for name, pool := range certified {
		eventually(t, name+": the old authority is not believed", func() (bool, string) {
			_, err := as(pool)
			return err != nil, "it is connected"
		})
		if user, err := as(known[name]); err != nil || user != "by_password" {
			t.Errorf("%s, by a passfile with another password: %v", name, err)
		}
	}
	issue(renewed)
	for name, pool := range certified {
		if user, err := as(pool); err != nil || user != "by_certificate" {
			t.Errorf("%s, with renewed files: %q, %v", name, user, err)
		}
	}
	putFile(t, file("key.pem"), []byte("sentinel"))
	for name, pool := range certified {
		_, err := as(pool)
		if err == nil || !strings.Contains(err.Error(), "the files that the connection string names (sslrootcert, sslcert, sslkey)") || strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%s, with a key that is none: %v", name, err)
		}
	}
}
