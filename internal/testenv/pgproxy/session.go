package pgproxy

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// maxMessage is more than any message of a test.
const maxMessage = 256 << 20

// Codes in place of a protocol version in the first message of a connection.
const (
	sslRequest    = 80877103
	gssEncRequest = 80877104
)

// session is one connection through the proxy.
type session struct {
	proxy          *Proxy
	client, server net.Conn
	once           sync.Once
	over           chan struct{} // closed when the session ends

	mu         sync.Mutex
	statements map[string]string // prepared statements by name
	queries    []string          // of the transaction
	begun      bool              // by a begin; otherwise what comes before a sync is a transaction
}

func (s *session) end() {
	s.once.Do(func() {
		close(s.over)
		_ = s.client.Close()
		_ = s.server.Close()
	})
}

// run passes messages on in both directions until one side ends or the session is cut.
func (s *session) run() {
	fromClient := bufio.NewReader(s.client)
	if s.startup(fromClient) != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer s.end()
		_ = pass(fromClient, s.server, s.fromClient)
	})
	wg.Go(func() {
		defer s.end()
		_ = pass(bufio.NewReader(s.server), s.client, s.fromServer)
	})
	wg.Wait()
}

// startup passes on the first message, which has no type. Encryption is refused, so that what follows
// can be read.
func (s *session) startup(r *bufio.Reader) error {
	for {
		head := make([]byte, 8)
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head)) - len(head)
		if n < 0 || n > maxMessage {
			return tooLong(n)
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		switch binary.BigEndian.Uint32(head[4:]) {
		case sslRequest, gssEncRequest:
			if _, err := s.client.Write([]byte{'N'}); err != nil {
				return err
			}
		default: // a start, or a request to cancel
			_, err := s.server.Write(append(head, body...))
			return err
		}
	}
}

// pass copies messages, each complete, as long as look says so.
func pass(from *bufio.Reader, to io.Writer, look func(kind byte, body []byte) error) error {
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(from, head); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[1:])) - 4
		if n < 0 || n > maxMessage {
			return tooLong(n)
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(from, body); err != nil {
			return err
		}
		if err := look(head[0], body); err != nil {
			return err
		}
		if _, err := to.Write(append(head, body...)); err != nil {
			return err
		}
	}
}

func (s *session) fromClient(kind byte, body []byte) error {
	switch kind {
	case 'P':
		var m pgproto3.Parse
		if err := m.Decode(body); err != nil {
			return err
		}
		s.mu.Lock()
		s.statements[m.Name] = m.Query
		s.mu.Unlock()
	case 'B':
		var m pgproto3.Bind
		if err := m.Decode(body); err != nil {
			return err
		}
		s.mu.Lock()
		query := s.statements[m.PreparedStatement]
		s.mu.Unlock()
		return s.runs(query)
	case 'Q':
		var m pgproto3.Query
		if err := m.Decode(body); err != nil {
			return err
		}
		return s.runs(m.String)
	case 'S':
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.begun && len(s.queries) > 0 && s.proxy.cut(beforeCommit, s.queries) {
			return errCut
		}
	}
	return nil
}

// runs notes a query that the client runs.
func (s *session) runs(query string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch word := strings.ToLower(strings.TrimSpace(query)); {
	case strings.HasPrefix(word, "begin"):
		s.queries, s.begun = nil, true
	case strings.HasPrefix(word, "commit"):
		if s.proxy.cut(beforeCommit, s.queries) {
			return errCut
		}
	default:
		s.queries = append(s.queries, query)
		if s.proxy.cut(atQuery, s.queries) {
			return errCut
		}
	}
	return nil
}

// fromServer looks for the end of a transaction: the word of a commit, or, where none was asked for, that the
// server is ready for the next one.
func (s *session) fromServer(kind byte, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind {
	case 'C':
		var m pgproto3.CommandComplete
		if err := m.Decode(body); err != nil {
			return err
		}
		switch string(m.CommandTag) {
		case "COMMIT":
			return s.committed()
		case "ROLLBACK":
			s.queries, s.begun = nil, false
		}
	case 'E':
		if !s.begun {
			s.queries = nil
		}
	case 'Z':
		if !s.begun && len(s.queries) > 0 {
			return s.committed()
		}
	}
	return nil
}

// committed ends a transaction. Call it with mu held.
func (s *session) committed() error {
	queries := s.queries
	s.queries, s.begun = nil, false
	if s.proxy.cut(afterCommit, queries) {
		return errCut
	}
	return nil
}
