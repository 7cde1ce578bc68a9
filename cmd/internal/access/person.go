package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrName is wrapped when a person has a name that the audit log cannot have.
var ErrName = errors.New("the name cannot be used here")

// SignIn is what a person signs in with.
type SignIn string

const (
	// ByKey is an API key.
	ByKey SignIn = "key"
	// ByLink is a one-time link.
	ByLink SignIn = "link"
	// ByOIDC is the word of an OpenID provider.
	ByOIDC SignIn = "oidc"
	// ByProxy is the word of a trusted proxy.
	ByProxy SignIn = "proxy"
)

// Person is who was named by an OpenID provider or a trusted proxy.
type Person struct {
	// By says which of the two. Required.
	By SignIn
	// Name is who signs in, 1 to 200 bytes. It may not begin with "cli:", which the audit log has for commands. Required.
	Name string
	// Subject tells the person from others of the same name: the issuer and the subject of an OpenID provider. Defaults to the
	// name.
	Subject string
	// Scopes are what the session may do, at least one. Required.
	Scopes []Scope
	// Sources are those of the session. Defaults to none.
	Sources Sources
	// Details are for the audit log: who said it, and the groups. Defaults to none.
	Details map[string]any
}

// SessionByPerson opens a session for a person whom an OpenID provider or a trusted proxy names, which ends after age.
func (s *Store) SessionByPerson(ctx context.Context, p Person, age time.Duration) (n Session, token string, err error) {
	fault := nameFault(p.Name)
	if fault == "" && strings.HasPrefix(p.Name, "cli:") {
		fault = "begins with cli:, as the audit log names commands"
	}
	if fault != "" {
		return Session{}, "", fmt.Errorf("%w: it %s", ErrName, fault)
	}
	if len(p.Scopes) == 0 {
		return Session{}, "", fmt.Errorf("access: %q would have a session without a scope", p.Name)
	}
	err = s.change(ctx, func(tx pgx.Tx) error {
		n, token, err = s.openSession(ctx, tx, Session{By: p.By, Name: p.Name, Person: string(p.By) + ":" + cmp.Or(p.Subject, p.Name), Scopes: p.Scopes, Sources: p.Sources}, age, p.Details)
		return err
	})
	if err != nil {
		return Session{}, "", err
	}
	return n, token, nil
}
