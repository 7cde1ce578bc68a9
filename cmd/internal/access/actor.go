package access

import "context"

// Actor is who does something.
type Actor struct {
	// Name is the name of the API key, who signed in to the web console, or "cli:" and the database user of a command.
	Name string
	// KeyID is the id of the API key, or of the session of the web console where it has none; empty for a command.
	KeyID string
	// Person is which person of that name it is, as Session.Person. Defaults to the person of the key.
	Person string
	// RequestID is in the answer, the log and the audit row; empty for a command.
	RequestID string
	// Scopes are what it may do.
	Scopes []Scope
	// Sources are the sources whose things it sees and acts on. Defaults to none.
	Sources Sources
}

// May reports whether the actor has a scope; Admin has all.
func (a Actor) May(s Scope) bool { return allows(a.Scopes, s) }

// PersonID is which person it is, for what the name alone does not tell; empty for a command.
func (a Actor) PersonID() string {
	if a.Person == "" && a.KeyID != "" {
		return personOfKey(a.KeyID)
	}
	return a.Person
}

// personOfKey is the person who has an API key.
func personOfKey(id string) string { return "key:" + id }

type actorKey struct{}

// WithActor returns a context whose work is done by a.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// Limited is WithActor, in which nothing is seen but the actor's sources (dlq.WithSources).
func Limited(ctx context.Context, a Actor) context.Context {
	return a.Sources.within(WithActor(ctx, a))
}

// ActorOf returns the actor of ctx. When ctx has none, it returns the zero Actor, which may do nothing.
func ActorOf(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}

// SessionUser returns the user that logged in to the database, whatever role the session took on.
func (s *Store) SessionUser(ctx context.Context) (name string, err error) {
	err = s.pool.QueryRow(ctx, sessionUser).Scan(&name)
	return name, err
}
