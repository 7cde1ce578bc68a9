package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// A session of the web console stands on an API key or on a one-time link. People who sign in with their company's account,
// or behind a proxy that names them, will come to openSession with a name and scopes, as links do now.

var (
	// ErrUnknownSession is wrapped when a session does not work. As with keys, it does not say why.
	ErrUnknownSession = errors.New("the session is not known, was ended or has expired")
	// ErrLinkUsed is wrapped when a link was used before.
	ErrLinkUsed = errors.New("this one-time link has been used")
	// ErrUnknownLink is wrapped when a link does not work for another reason.
	ErrUnknownLink = errors.New("this one-time link is not known or has expired")
)

// Session is a session of the web console without its secret.
type Session struct {
	// ID is its public id.
	ID string
	// KeyID is the API key that it stands on; empty for a person who signed in by a link.
	KeyID string
	// Name is who signed in.
	Name string
	// Scopes are what it may do: those of its key now, or those of its link.
	Scopes []Scope
	// CreatedAt is when it began, ExpiresAt when it ends at the latest.
	CreatedAt, ExpiresAt time.Time
}

// Actor is who acts in the session.
func (s Session) Actor() Actor {
	a := Actor{Name: s.Name, KeyID: s.KeyID, Scopes: s.Scopes}
	if a.KeyID == "" {
		a.KeyID = s.ID
	}
	return a
}

// NewLink is what a new one-time link should be: for a key, or for a person with scopes.
type NewLink struct {
	// KeyID is the API key that its session stands on. Required without Scopes.
	KeyID string
	// Name is who signs in with it. Defaults to the name of the key; required without one.
	Name string
	// Scopes are what its session may do. Required without KeyID, whose scopes count otherwise.
	Scopes []Scope
	// ExpiresIn is how long it may be used. Required.
	ExpiresIn time.Duration
}

// Link makes a one-time link, and returns its token and until when it may be used. The token is kept nowhere.
func (s *Store) Link(ctx context.Context, n NewLink) (token string, expires time.Time, err error) {
	if n.ExpiresIn < time.Second {
		return "", expires, fmt.Errorf("%w: a link that ends in %s could not be used", ErrInvalid, n.ExpiresIn)
	}
	token, id, hash := newToken(linkPrefix)
	err = s.change(ctx, func(tx pgx.Tx) error {
		if n.KeyID != "" {
			k, err := oneWorkingKey(ctx, tx, n.KeyID)
			if err != nil {
				return err
			}
			if n.Name == "" {
				n.Name = k.Name
			}
			if err := (NewKey{Name: n.Name, Scopes: k.Scopes}).check(); err != nil {
				return err
			}
			n.Scopes = nil
		} else if err := (NewKey{Name: n.Name, Scopes: n.Scopes}).check(); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, linkInsert, id, hash[:], nullText(n.KeyID), n.Name, scopeTexts(n.Scopes), ActorOf(ctx).Name,
			n.ExpiresIn.Microseconds()).Scan(&expires); err != nil {
			return err
		}
		return s.Audit(ctx, tx, "link.create", "link", id, map[string]any{"name": n.Name, "key_id": n.KeyID, "scopes": scopeTexts(n.Scopes), "expires_at": expires})
	})
	if err != nil {
		return "", expires, err
	}
	return token, expires, nil
}

// oneWorkingKey returns the key with an id, which must work.
func oneWorkingKey(ctx context.Context, tx pgx.Tx, id string) (Key, error) {
	var stored []byte
	var works, noted bool
	rows, err := tx.Query(ctx, keyFind, id)
	if err != nil {
		return Key{}, err
	}
	k, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Key, error) { return scanKey(row, &stored, &works, &noted) })
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return k, fmt.Errorf("%w: %q; postrider apikey list shows the ids", ErrNotFound, id)
	case err == nil && !works:
		return k, fmt.Errorf("%w: the key %q was revoked or has expired", ErrInvalid, id)
	}
	return k, err
}

// LinkOf says whom a link is for, without using it.
func (s *Store) LinkOf(ctx context.Context, token string) (name string, err error) {
	id, hash, err := parseToken(linkPrefix, token)
	if err != nil {
		return "", ErrUnknownLink
	}
	return findLink(ctx, s.pool, id, hash)
}

func findLink(ctx context.Context, from querier, id string, hash secretHash) (name string, err error) {
	var used, over bool
	err = from.QueryRow(ctx, linkFind, id, hash[:]).Scan(&name, &used, &over)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", ErrUnknownLink
	case err != nil:
		return "", err
	case used:
		return name, ErrLinkUsed
	case over:
		return name, ErrUnknownLink
	}
	return name, nil
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SessionByLink uses a link, and returns the session that it opens, which ends after age at the latest.
func (s *Store) SessionByLink(ctx context.Context, link string, age time.Duration) (n Session, token string, err error) {
	id, hash, err := parseToken(linkPrefix, link)
	if err != nil {
		return Session{}, "", ErrUnknownLink
	}
	err = s.change(ctx, func(tx pgx.Tx) error {
		var key *string
		var scopes []string
		err := tx.QueryRow(ctx, linkUse, id, hash[:]).Scan(&key, &n.Name, &scopes)
		if errors.Is(err, pgx.ErrNoRows) {
			if _, err = findLink(ctx, tx, id, hash); err == nil {
				err = ErrUnknownLink // it ended between the two statements
			}
			return err
		} else if err != nil {
			return err
		}
		n.Scopes = toScopes(scopes)
		if key != nil {
			n.KeyID = *key
		}
		n, token, err = s.openSession(ctx, tx, n, age, map[string]any{"by": "link", "link": id})
		return err
	})
	if err != nil {
		return Session{}, "", err
	}
	return n, token, nil
}

// SessionByKey opens a session that stands on the key of a token, and ends with it, or after age.
func (s *Store) SessionByKey(ctx context.Context, key string, age time.Duration) (n Session, token string, err error) {
	k, err := s.Authenticate(ctx, key)
	if err != nil {
		return Session{}, "", err
	}
	err = s.change(ctx, func(tx pgx.Tx) error {
		n, token, err = s.openSession(ctx, tx, Session{KeyID: k.ID, Name: k.Name}, age, map[string]any{"by": "key"})
		return err
	})
	if err != nil {
		return Session{}, "", err
	}
	n.Scopes = k.Scopes
	return n, token, nil
}

// openSession writes a new session for a person who is known, and that they signed in.
func (s *Store) openSession(ctx context.Context, tx pgx.Tx, n Session, age time.Duration, details map[string]any) (Session, string, error) {
	token, id, hash := newToken(sessionPrefix)
	n.ID = id
	if err := tx.QueryRow(ctx, sessionInsert, id, hash[:], nullText(n.KeyID), n.Name, scopeTexts(n.Scopes), age.Microseconds()).Scan(&n.CreatedAt, &n.ExpiresAt); err != nil {
		return n, "", err
	}
	actor := n.Actor()
	actor.RequestID = ActorOf(ctx).RequestID
	return n, token, s.Audit(WithActor(ctx, actor), tx, "session.begin", "session", id, details)
}

// sessionIdle is after how long without use a session ends.
const sessionIdle = 2 * time.Hour

// Session returns the session that a token belongs to. An error that wraps ErrUnknownSession is about the token, every
// other one about the database.
func (s *Store) Session(ctx context.Context, token string) (Session, error) {
	id, hash, err := parseToken(sessionPrefix, token)
	if err != nil {
		return Session{}, errors.Join(ErrUnknownSession, err)
	}
	return s.session(ctx, id, hash)
}

func (s *Store) session(ctx context.Context, id string, hash secretHash) (n Session, err error) {
	var stored []byte
	var scopes []string
	var works, noted bool
	err = s.pool.QueryRow(ctx, sessionFind, id, s.idle().Microseconds()).Scan(&n.ID, &n.KeyID, &n.Name, &scopes, &n.CreatedAt, &n.ExpiresAt, &stored, &works, &noted)
	if errors.Is(err, pgx.ErrNoRows) {
		stored, works, err = make([]byte, len(hash)), false, nil // and the same is done as for one that is known
	}
	if err != nil {
		return Session{}, err
	}
	if subtle.ConstantTimeCompare(stored, hash[:]) != 1 || !works {
		return Session{}, ErrUnknownSession
	}
	n.Scopes = toScopes(scopes)
	if !noted {
		if _, err := s.pool.Exec(ctx, sessionUsed, id); err != nil {
			return Session{}, err
		}
	}
	return n, nil
}

func (s *Store) idle() time.Duration {
	if s.SessionIdle > 0 {
		return s.SessionIdle
	}
	return sessionIdle
}

// EndSession ends a session at once. One that has ended before stays as it was.
func (s *Store) EndSession(ctx context.Context, id string) error {
	err := s.change(ctx, func(tx pgx.Tx) error {
		ended, err := tx.Exec(ctx, sessionEnd, id)
		if err != nil || ended.RowsAffected() == 0 {
			return err
		}
		return s.Audit(ctx, tx, "session.end", "session", id, struct{}{})
	})
	s.sessions.forget(id) // also after an error: the commit may have been
	return err
}

// PurgeSessions removes sessions and links that could not be used any more keep ago, limit of each kind at most. It returns
// how many, and whether there may be more.
func (s *Store) PurgeSessions(ctx context.Context, keep time.Duration, limit int) (n int, more bool, err error) {
	err = s.pool.QueryRow(ctx, sessionPurge, keep.Microseconds(), limit).Scan(&n, &more)
	return n, more, err
}

func nullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
