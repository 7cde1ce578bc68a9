package app

import (
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/postrider/postrider/cmd/internal/config"
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
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					go greet(conn, c.reported)
				}
			}()
			_, err = Connect(t.Context(), config.Database{URL: config.DatabaseURL("postgres://u:p@" + listener.Addr().String() + "/d?sslmode=disable")})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "PostgreSQL 14 or newer is needed") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// greet is a server that lets everybody in and reports its parameters.
func greet(conn net.Conn, reported map[string]string) {
	defer conn.Close()
	server := pgproto3.NewBackend(conn, conn)
	if _, err := server.ReceiveStartupMessage(); err != nil {
		return
	}
	server.Send(&pgproto3.AuthenticationOk{})
	for name, value := range reported {
		server.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if server.Flush() == nil {
		_, _ = server.Receive() // until the client goes
	}
}
