package baseline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/twmb/franz-go/pkg/kgo"
)

// confirmEvery is how often the server is told how far Kafka has acknowledged the log.
const confirmEvery = time.Second

// Logical reads the write-ahead log through pgoutput, produces the inserts, and confirms what Kafka has acknowledged: a
// log-based relay as short as it can be.
func Logical(ctx context.Context, w Work) error {
	p, err := newProducer(w)
	if err != nil {
		return err
	}
	defer p.Close()
	cfg, err := pgconn.ParseConfig(w.Database)
	if err != nil {
		return err
	}
	cfg.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	conn.Frontend().Send(&pgproto3.Query{String: fmt.Sprintf(
		`START_REPLICATION SLOT "%s" LOGICAL 0/0 ("proto_version" '1', "publication_names" '%s', "binary" 'true')`, w.Slot, w.Publication)})
	if err := conn.Frontend().Flush(); err != nil {
		return err
	}
	l := &logReader{conn: conn, producer: p}
	for next := time.Now().Add(confirmEvery); ; {
		reading, cancel := context.WithDeadline(ctx, next)
		message, err := conn.ReceiveMessage(reading)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case pgconn.Timeout(err):
		case err != nil:
			return fmt.Errorf("read the log: %w", err)
		default:
			if err := l.message(ctx, message); err != nil {
				return err
			}
		}
		if time.Now().After(next) {
			if err := errors.Join(p.err(), l.confirm()); err != nil {
				return err
			}
			next = time.Now().Add(confirmEvery)
		}
	}
}

// logReader turns messages of the log into records.
type logReader struct {
	conn     *pgconn.PgConn
	producer *producer
	end      uint64 // of the transaction that is being read
	mu       sync.Mutex
	under    []*unanswered // in the order of the log
	safe     uint64
}

// unanswered is a record on its way, and the end of its transaction.
type unanswered struct {
	end      uint64
	answered bool
}

func (l *logReader) message(ctx context.Context, message pgproto3.BackendMessage) error {
	switch m := message.(type) {
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyData:
		switch {
		case len(m.Data) > 25 && m.Data[0] == 'w': // behind a header with the place in the log
			return l.change(ctx, m.Data[25:])
		case len(m.Data) > 17 && m.Data[0] == 'k' && m.Data[17] == 1:
			return l.confirm()
		}
	}
	return nil
}

// change reads one message of pgoutput: the begin of a transaction or an insert. There is one table, so relations are not
// looked up.
func (l *logReader) change(ctx context.Context, data []byte) error {
	switch data[0] {
	case 'B':
		l.end = binary.BigEndian.Uint64(data[1:])
	case 'I': // relation (4 bytes), N, number of columns (2 bytes)
		var columns [4][]byte // id, topic, key, payload
		for rest, i := data[8:], 0; i < len(columns); i++ {
			if rest[0] != 'b' && rest[0] != 't' {
				return fmt.Errorf("column %d of an event is of kind %q", i, rest[0])
			}
			n := binary.BigEndian.Uint32(rest[1:])
			columns[i], rest = rest[5:5+n], rest[5+n:]
		}
		under := &unanswered{end: l.end}
		l.mu.Lock()
		l.under = append(l.under, under)
		l.mu.Unlock()
		l.producer.Produce(ctx, record(string(columns[1]), columns[2], columns[3]), func(r *kgo.Record, err error) {
			l.producer.done(r, err)
			l.mu.Lock()
			under.answered = err == nil
			l.mu.Unlock()
		})
	}
	return nil
}

// confirm tells the server what it may forget. A transaction is confirmed with its last record, by the first record of
// the next.
func (l *logReader) confirm() error {
	l.mu.Lock()
	n := 0
	for n < len(l.under) && l.under[n].answered {
		l.safe = l.under[n].end
		n++
	}
	if n < len(l.under) && l.under[n].end == l.safe {
		l.safe-- // not all of this transaction
	}
	l.under = l.under[n:]
	safe := l.safe
	l.mu.Unlock()
	status := []byte{'r'}
	for range 3 { // written, flushed, applied
		status = binary.BigEndian.AppendUint64(status, safe)
	}
	since2000 := time.Since(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC))
	status = append(binary.BigEndian.AppendUint64(status, uint64(since2000.Microseconds())), 0)
	l.conn.Frontend().Send(&pgproto3.CopyData{Data: status})
	return l.conn.Frontend().Flush()
}
