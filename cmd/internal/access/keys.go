package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// ErrUnknownKey is wrapped when a presented key does not work. It does not say why: a client cannot tell a
	// key that never was from a key that was revoked or has expired.
	ErrUnknownKey = errors.New("the API key is not known, was revoked or has expired")
	// ErrNotFound is wrapped by errors about a key id that does not exist.
	ErrNotFound = errors.New("API key not found")
	// ErrInvalid is wrapped by errors about what a new key or link should be.
	ErrInvalid = errors.New("request refused")
)

// Key is an API key without its secret.
type Key struct {
	// ID is its id, which is a part of its token.
	ID string `json:"id"`
	// Name says whose key it is or what for.
	Name string `json:"name"`
	// Scopes are what it may do.
	Scopes []Scope `json:"scopes"`
	// Sources are the sources whose things it sees and acts on, by name; ["*"] is all, and an empty list is none.
	Sources Sources `json:"sources"`
	// CreatedBy is who made it.
	CreatedBy string `json:"created_by"`
	// CreatedAt is when it was made.
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is when it ends by itself; nil for a key that works for good.
	ExpiresAt *time.Time `json:"expires_at"`
	// LastUsedAt is when it was used last, to the minute; nil for never.
	LastUsedAt *time.Time `json:"last_used_at"`
	// RevokedAt is when it was revoked; nil where it was not.
	RevokedAt *time.Time `json:"revoked_at"`
}

// Works reports whether the key works at the given time.
func (k Key) Works(now time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// NewKey is what a new key should be.
type NewKey struct {
	// Name says whose key it is or what for, 1 to 200 bytes. Required.
	Name string
	// Scopes are what it may do, at least one. Required.
	Scopes []Scope
	// Sources are the sources whose things it sees and acts on. Defaults to nil, which is all of them; an empty list is none.
	Sources Sources
	// ExpiresIn is how long it works; zero is for good. Defaults to 0.
	ExpiresIn time.Duration
}

// check says what is wrong with a new API key, or a new link: the rules for their names and scopes are the same.
func (n NewKey) check(what string) error {
	fault := nameFault(n.Name)
	switch {
	case fault != "":
		return fmt.Errorf("%w: the name of the %s %s", ErrInvalid, what, fault)
	case len(n.Scopes) == 0:
		return fmt.Errorf("%w: the %s has no scope; the scopes are %s", ErrInvalid, what, scopeList())
	case n.ExpiresIn < 0, n.ExpiresIn > 0 && n.ExpiresIn < time.Second:
		return fmt.Errorf("%w: the %s would have expired already", ErrInvalid, what)
	}
	for _, s := range n.Scopes {
		if !slices.Contains(Scopes(), s) {
			return fmt.Errorf("%w: scope %q is not known; the scopes are %s", ErrInvalid, s, scopeList())
		}
	}
	if _, err := ParseSources(n.Sources); err != nil {
		return fmt.Errorf("%w: the %s: %w", ErrInvalid, what, err)
	}
	return nil
}

// sources are the sources that a new key or link gets.
func (n NewKey) sources() Sources {
	if n.Sources == nil {
		return AllSources()
	}
	sorted, _ := ParseSources(n.Sources) // check has refused others
	return sorted
}

// nameFault says what is wrong with the name of a key or a person; empty for nothing.
func nameFault(name string) string {
	switch {
	case strings.TrimSpace(name) == "" || len(name) > 200:
		return fmt.Sprintf("has %d bytes, it must have 1 to 200", len(name))
	case Misleads(name):
		return "has control characters, marks of direction or invisible characters"
	}
	return ""
}

// Misleads reports whether a text that is shown on one line has a line end, a tab or a Misleading character.
func Misleads(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r == '\n' || r == '\t' || Misleading(r) })
}

// Misleading reports whether a character is a control character other than line end and tab, a mark of direction such as U+202E, a
// character without width, a separator of lines that only some readers know, or one of private use, which each font shows otherwise.
func Misleading(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < ' ' || r >= 0x7f && r < 0xa0:
		return true
	case r < 0xad:
		return false
	}
	return r == 0xad || r == 0x61c || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060 && r <= 0x206f ||
		r == 0xfeff || r >= 0xfff9 && r <= 0xfffb || r >= 0xe0000 && r <= 0xe0fff || unicode.Is(unicode.Co, r)
}

// Store keeps keys, the audit log and answers. It is safe for concurrent use.
type Store struct {
	pool     *pgxpool.Pool
	working  working[Key]
	sessions working[Session]
	// SessionIdle is after how long without use a session ends; set it before use. Defaults to 2 h.
	SessionIdle time.Duration
}

// NewStore returns a store on the pool, which stays the caller's.
func NewStore(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Create makes a key and returns it with its token, which is kept nowhere and cannot be shown again.
func (s *Store) Create(ctx context.Context, n NewKey) (k Key, token string, err error) {
	if err := n.check("API key"); err != nil {
		return Key{}, "", err
	}
	token, id, hash := newToken(tokenPrefix)
	err = s.change(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, keyInsert, id, hash[:], n.Name, scopeTexts(n.Scopes), ActorOf(ctx).Name, n.ExpiresIn.Microseconds(), n.sources())
		if err != nil {
			return err
		}
		if k, err = pgx.CollectExactlyOneRow(rows, scanOneKey); err != nil {
			return err
		}
		return s.Audit(ctx, tx, "key.create", "key", id, AllSources(), map[string]any{"name": k.Name, "scopes": k.Scopes, "sources": k.Sources, "expires_at": k.ExpiresAt})
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, token, nil
}

// List returns the keys, newest first.
func (s *Store) List(ctx context.Context) ([]Key, error) {
	rows, err := s.pool.Query(ctx, keyList)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanOneKey)
}

// Revoke ends a key at once. One that was revoked before stays as it was.
func (s *Store) Revoke(ctx context.Context, id string) (k Key, err error) {
	err = s.change(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, keyRevoke, id)
		if err != nil {
			return err
		}
		k, err = pgx.CollectExactlyOneRow(rows, scanOneKey)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("%w: %q; postrider apikey list shows the ids", ErrNotFound, id)
		} else if err != nil {
			return err
		}
		return s.Audit(ctx, tx, "key.revoke", "key", id, AllSources(), map[string]any{"name": k.Name})
	})
	s.working.forget(id) // also after an error: the commit may have been
	s.sessions.forgetAll()
	return k, err
}

// Authenticate returns the key that a token belongs to. An error that wraps ErrUnknownKey is about the token,
// every other one about the database.
func (s *Store) Authenticate(ctx context.Context, token string) (Key, error) {
	id, hash, err := parseToken(tokenPrefix, token)
	if err != nil {
		return Key{}, errors.Join(ErrUnknownKey, err)
	}
	return s.authenticate(ctx, id, hash)
}

func (s *Store) authenticate(ctx context.Context, id string, hash secretHash) (Key, error) {
	var stored []byte
	var works, noted bool
	rows, err := s.pool.Query(ctx, keyFind, id)
	if err != nil {
		return Key{}, err
	}
	k, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Key, error) { return scanKey(row, &stored, &works, &noted) })
	if errors.Is(err, pgx.ErrNoRows) {
		stored, works, err = make([]byte, len(hash)), false, nil // and the same is done as for one that is known
	}
	if err != nil {
		return Key{}, err
	}
	if subtle.ConstantTimeCompare(stored, hash[:]) != 1 || !works {
		return Key{}, ErrUnknownKey
	}
	if !noted {
		if _, err := s.pool.Exec(ctx, keyUsed, id); err != nil {
			return Key{}, err
		}
	}
	return k, nil
}

// change runs f in a transaction that is committed when f succeeds.
func (s *Store) change(ctx context.Context, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, f)
}

func scanOneKey(row pgx.CollectableRow) (Key, error) { return scanKey(row) }

// scanKey reads a key, and the further columns of the query.
func scanKey(row pgx.CollectableRow, more ...any) (k Key, err error) {
	var scopes []string
	err = row.Scan(append([]any{&k.ID, &k.Name, &scopes, &k.Sources, &k.CreatedBy, &k.CreatedAt, &k.ExpiresAt, &k.LastUsedAt, &k.RevokedAt}, more...)...)
	k.Scopes = toScopes(scopes)
	return k, err
}

func toScopes(texts []string) []Scope {
	out := make([]Scope, len(texts))
	for i, t := range texts {
		out[i] = Scope(t)
	}
	return out
}

func scopeTexts(scopes []Scope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}
