package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/dlq/dlqtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// cutConn lets a COMMIT through and loses the server's reply.
type cutConn struct {
	net.Conn
	armed *atomic.Bool // shared by all connections; the first COMMIT takes it
	cut   atomic.Bool
}

func (c *cutConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("commit\x00")) && c.armed.CompareAndSwap(true, false) {
		c.cut.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.cut.Load() { // the reply is here, so the server has committed
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// TestCommitReplyLost commits letters without learning of it: the error is a passing one, and storing
// the same again finds them there.
func TestCommitReplyLost(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(pgtest.New(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	var armed atomic.Bool
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &cutConn{Conn: conn, armed: &armed}, nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s := subjectOn(t, pool)
	letters := dlqtest.Letters(dlqtest.Event(1, 1), dlqtest.Event(1, 2), dlqtest.Event(2, 1))
	armed.Store(true)
	if _, err := s.RecordLetters(t.Context(), letters); err == nil || errors.Is(err, dlq.ErrLetter) {
		t.Fatalf("error %v, want a passing one", err)
	}
	if armed.Load() {
		t.Fatal("no commit was seen")
	}
	recorded, err := s.RecordLetters(t.Context(), letters)
	if err != nil || recorded != (dlq.Recorded{Repeated: 3}) {
		t.Errorf("again: %+v, %v", recorded, err)
	}
	entries, total, err := s.list(t.Context(), dlq.Filter{})
	if err != nil || total != 2 || entries[0].Occurrences+entries[1].Occurrences != 3 {
		t.Errorf("investigations %+v, %v", entries, err)
	}
}
