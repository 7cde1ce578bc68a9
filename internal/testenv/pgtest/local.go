package pgtest

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/pgserver"
)

// testSettings make a server fast that may lose everything when the machine goes down, and let many tests, of several
// processes, connect at the same time.
var testSettings = map[string]string{
	"fsync":            "off",
	"full_page_writes": "off",
	"jit":              "off", // as in the product's sessions: in the others, compiling small queries took a third of all time
	"max_connections":  "500",
	"shared_buffers":   "128MB",
}

// StartLocal starts a server for tests from PostgreSQL's binaries on this machine, which it fetches where there are none
// and says so to log. The caller stops it. The error is pgserver.ErrNotFound or errors.ErrUnsupported where there can be
// no such server.
func StartLocal(ctx context.Context, log io.Writer) (*pgserver.Server, error) {
	binaries, err := pgserver.Obtain(ctx, func(d pgserver.Download) { fmt.Fprintln(log, d) })
	if err != nil {
		return nil, err
	}
	s, err := pgserver.Start(ctx, pgserver.Options{Binaries: binaries, Settings: testSettings, Database: "postgres", TempDir: pgserver.MemoryDir()})
	if err != nil {
		return nil, err
	}
	if err := shortenLogin(ctx, s.URL()); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// shortenLogin stores the password of the address's role so that a login hashes it once. PostgreSQL has clients hash it
// 4096 times, which makes a guessable password hard to guess. This one is random and needs no help, and under the race
// detector the hashes are a fifth of the processor time that tests of SQL take.
func shortenLogin(ctx context.Context, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("pgtest: the server's address: %w", err)
	}
	password, _ := u.User.Password()
	verifier, err := scramVerifier(password)
	if err != nil {
		return fmt.Errorf("pgtest: hash the server's password: %w", err)
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("pgtest: connect to PostgreSQL (local binaries): %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// The verifier has the characters of base64 and SCRAM-SHA-256$: alone.
	if _, err := conn.Exec(ctx, "alter role "+quote(u.User.Username())+" password '"+verifier+"'"); err != nil {
		return fmt.Errorf("pgtest: store the server's password: %w", err)
	}
	return nil
}

// scramVerifier is what PostgreSQL stores of a password (RFC 5803), with one iteration.
func scramVerifier(password string) (string, error) {
	const iterations = 1
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // it cannot fail
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	sign := func(text string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored := sha256.Sum256(sign("Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, encode(salt), encode(stored[:]), encode(sign("Server Key"))), nil
}
