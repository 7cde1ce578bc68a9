package doctor

import (
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestForeignServers: a server that speaks PostgreSQL's protocol and calls itself a new PostgreSQL when a client connects is
// refused by what it answers to select version(), and asked nothing else.
func TestForeignServers(t *testing.T) {
	t.Parallel()
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
			s.flags["database.url"] = "postgres://u:p@" + answering(t, version) + "/d?sslmode=disable"
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

// answering is a server that takes every login and calls itself PostgreSQL 18. It knows select version() and the client's ping, and
// refuses every other statement.
func answering(t *testing.T, version string) (address string) {
	t.Helper()
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
			go answer(conn, version)
		}
	}()
	return listener.Addr().String()
}

func answer(conn net.Conn, version string) {
	defer conn.Close()
	server := pgproto3.NewBackend(conn, conn)
	if _, err := server.ReceiveStartupMessage(); err != nil {
		return
	}
	server.Send(&pgproto3.AuthenticationOk{})
	for name, value := range map[string]string{"server_version": "18.2", "standard_conforming_strings": "on", "client_encoding": "UTF8"} {
		server.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	for {
		server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if server.Flush() != nil {
			return
		}
		asked, err := server.Receive()
		if err != nil {
			return
		}
		query, is := asked.(*pgproto3.Query)
		switch {
		case is && query.String == "-- ping":
			server.Send(&pgproto3.EmptyQueryResponse{})
		case is && strings.TrimSpace(query.String) == "select version()":
			server.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("version"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1}}})
			server.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(version)}})
			server.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		default:
			server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "XX000", Message: "another statement than version()"})
			_ = server.Flush()
			return
		}
	}
}
