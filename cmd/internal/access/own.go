package access

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// OwnSession is a session as its person sees it in a list.
type OwnSession struct {
	Session
	// LastUsedAt is when it was last used, to the minute.
	LastUsedAt time.Time
}

// maxOwnSessions bounds a list of the sessions of one person.
const maxOwnSessions = 100

// OtherSessionsOf returns the sessions of the person of a session that work, but for that session: the newest 100, the
// newest first, and how many there are. Session.Person says whose they are.
func (s *Store) OtherSessionsOf(ctx context.Context, of Session) (newest []OwnSession, all int, err error) {
	rows, err := s.pool.Query(ctx, sessionOwn, of.Person, of.ID, s.idle().Microseconds(), maxOwnSessions)
	if err != nil {
		return nil, 0, err
	}
	newest, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (n OwnSession, err error) {
		var scopes []string
		err = row.Scan(&n.ID, &n.KeyID, &n.Name, &scopes, &n.Sources, &n.CreatedAt, &n.ExpiresAt, &n.LastUsedAt, &all)
		n.Scopes = toScopes(scopes)
		return n, err
	})
	return newest, all, err
}

// EndSessionsOf ends sessions of the person of a session at once, and returns the ids of the ended sessions. A session of
// another person stays as it was.
func (s *Store) EndSessionsOf(ctx context.Context, of Session, ids ...string) ([]string, error) {
	return s.endSessions(ctx, of, append([]string{}, ids...))
}

// EndOtherSessionsOf ends all sessions of the person of a session at once but this one, and returns their ids.
func (s *Store) EndOtherSessionsOf(ctx context.Context, of Session) ([]string, error) {
	return s.endSessions(ctx, of, nil)
}

// endSessions ends the sessions of a person that have ids. Where ids is nil it ends all but the one that asks.
func (s *Store) endSessions(ctx context.Context, of Session, ids []string) (ended []string, err error) {
	err = s.change(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sessionEndOwn, of.Person, ids, of.ID, s.idle().Microseconds())
		if err != nil {
			return err
		}
		if ended, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		for _, id := range ended {
			if err := s.Audit(ctx, tx, "session.end", "session", id, AllSources(), map[string]any{"by": of.ID}); err != nil {
				return err
			}
		}
		return nil
	})
	for _, id := range ended { // also after an error: the commit may have been
		s.sessions.forget(id)
	}
	return ended, err
}
