package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
)

// A session of the web console begins with an API key, or with a one-time link, an OpenID provider or a trusted proxy that
// names a person. All of them end in openSession.

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
	// KeyID is the API key that it began with, and ends with; empty for a person who signed in otherwise.
	KeyID string
	// By is what the person signed in with.
	By SignIn
	// Name is who signed in.
	Name string
	// Person is which person of that name it is: key: and the id of an API key, link: and the name, oidc: and the issuer and
	// subject, or proxy: and the name.
	Person string
	// Scopes are what it may do: the scopes of its key now, of its link, or of the person's groups at the sign-in.
	Scopes []Scope
	// Sources are the sources whose things it sees and acts on, from where its scopes are.
	Sources Sources
	// CreatedAt is when it began, ExpiresAt when it ends at the latest.
	CreatedAt, ExpiresAt time.Time
}

// Actor is who acts in the session.
func (s Session) Actor() Actor {
	a := Actor{Name: s.Name, KeyID: s.KeyID, Person: s.Person, Scopes: s.Scopes, Sources: s.Sources}
	if a.KeyID == "" {
		a.KeyID = s.ID
	}
	return a
}

// sources are what is stored of Sources: nil, which a session of a key has, is none.
func (s Session) sources() Sources { return append(Sources{}, s.Sources...) }

// NewLink is what a new one-time link should be: for a key, or for a person with scopes.
type NewLink struct {
	// KeyID is the API key that its session is for. Required without Scopes.
	KeyID string
	// Name is who signs in with it. Defaults to the name of the key; required without one.
	Name string
	// Scopes are what its session may do. Required without KeyID, whose scopes count otherwise.
	Scopes []Scope
	// Sources are those of its session. Defaults to nil, which is all of them; with KeyID those of the key count.
	Sources Sources
	// ExpiresIn is how long it may be used, a second to MaxLinkAge. Required.
	ExpiresIn time.Duration
}

// MaxLinkAge is the longest time in which a link may be used: an unused link that is found gives its rights.
const MaxLinkAge = 7 * 24 * time.Hour

// Link makes a one-time link, and returns its token and until when it may be used. The token is kept nowhere.
func (s *Store) Link(ctx context.Context, n NewLink) (token string, expires time.Time, err error) {
	if n.ExpiresIn < time.Second || n.ExpiresIn > MaxLinkAge {
		return "", expires, fmt.Errorf("%w: a link that may be used for %s is refused; it must be 1s to 168h (7 days)", ErrInvalid, n.ExpiresIn)
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
			if err := (NewKey{Name: n.Name, Scopes: k.Scopes}).check("link"); err != nil {
				return err
			}
			n.Scopes = nil
		} else if err := (NewKey{Name: n.Name, Scopes: n.Scopes, Sources: n.Sources}).check("link"); err != nil {
			return err
		}
		sources := NewKey{Sources: n.Sources}.sources()
		if err := tx.QueryRow(ctx, linkInsert, id, hash[:], orNull(n.KeyID), n.Name, scopeTexts(n.Scopes), ActorOf(ctx).Name,
			n.ExpiresIn.Microseconds(), sources).Scan(&expires); err != nil {
			return err
		}
		return s.Audit(ctx, tx, "link.create", "link", id, AllSources(), map[string]any{"name": n.Name, "key_id": n.KeyID, "scopes": scopeTexts(n.Scopes), "sources": sources, "expires_at": expires})
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
		err := tx.QueryRow(ctx, linkUse, id, hash[:]).Scan(&key, &n.Name, &scopes, &n.Sources)
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
		n.By = ByLink
		n, token, err = s.openSession(ctx, tx, n, age, map[string]any{"link": id})
		return err
	})
	if err != nil {
		return Session{}, "", err
	}
	return n, token, nil
}

// SessionByKey opens a session for the key of a token, which ends with the key, or after age.
func (s *Store) SessionByKey(ctx context.Context, key string, age time.Duration) (n Session, token string, err error) {
	k, err := s.Authenticate(ctx, key)
	if err != nil {
		return Session{}, "", err
	}
	err = s.change(ctx, func(tx pgx.Tx) error {
		n, token, err = s.openSession(ctx, tx, Session{KeyID: k.ID, By: ByKey, Name: k.Name}, age, nil)
		return err
	})
	if err != nil {
		return Session{}, "", err
	}
	n.Scopes, n.Sources = k.Scopes, k.Sources
	return n, token, nil
}

// openSession writes a new session for a person who is known, and that they signed in. Without n.Person it is the person of
// the key, or the one of that name who signs in that way.
func (s *Store) openSession(ctx context.Context, tx pgx.Tx, n Session, age time.Duration, details map[string]any) (Session, string, error) {
	token, id, hash := newToken(sessionPrefix)
	n.ID = id
	switch {
	case n.KeyID != "":
		n.Person = personOfKey(n.KeyID)
	case n.Person == "":
		n.Person = string(n.By) + ":" + n.Name
	}
	if err := tx.QueryRow(ctx, sessionInsert, id, hash[:], orNull(n.KeyID), n.By, n.Name, scopeTexts(n.Scopes), age.Microseconds(), n.Person, n.sources()).Scan(&n.CreatedAt, &n.ExpiresAt); err != nil {
		return n, "", err
	}
	actor := n.Actor()
	actor.RequestID = ActorOf(ctx).RequestID
	all := map[string]any{"by": n.By}
	maps.Copy(all, details)
	return n, token, s.Audit(WithActor(ctx, actor), tx, "session.begin", "session", id, AllSources(), all)
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
	return s.session(ctx, id, hash, true)
}

// session looks a session up; used notes that its person did something.
func (s *Store) session(ctx context.Context, id string, hash secretHash, used bool) (n Session, err error) {
	var stored []byte
	var scopes []string
	var works, noted bool
	err = s.pool.QueryRow(ctx, sessionFind, id, s.idle().Microseconds()).Scan(&n.ID, &n.KeyID, &n.By, &n.Name, &n.Person, &scopes, &n.Sources, &n.CreatedAt, &n.ExpiresAt, &stored, &works, &noted)
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
	if used && !noted {
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
		return s.Audit(ctx, tx, "session.end", "session", id, AllSources(), struct{}{})
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
