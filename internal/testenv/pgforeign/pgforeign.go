// Package pgforeign is a server that speaks PostgreSQL's protocol and is another program.
package pgforeign

import (
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Server is what a foreign server says of itself.
type Server struct {
	// Reports are the parameters that it reports to a client that connects, for example server_version.
	Reports map[string]string
	// Version is its answer to select version().
	Version string
}

// Start runs a server that takes every login, until the test ends, and returns its address, host:port. It knows select version() and
// the client's ping, and ends the connection on every other statement.
func Start(t testing.TB, s Server) (address string) {
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
			go s.serve(conn)
		}
	}()
	return listener.Addr().String()
}

func (s Server) serve(conn net.Conn) {
	defer conn.Close()
	server := pgproto3.NewBackend(conn, conn)
	if _, err := server.ReceiveStartupMessage(); err != nil {
		return
	}
	server.Send(&pgproto3.AuthenticationOk{})
	for name, value := range s.Reports {
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
			server.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(s.Version)}})
			server.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		default:
			server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "XX000", Message: "another statement than version()"})
			_ = server.Flush()
			return
		}
	}
}
