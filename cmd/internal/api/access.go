package api

import "github.com/postrider/postrider/cmd/internal/access"

// KeyOf is a key of the API as it is shown, without its secret.
func KeyOf(k access.Key) access.Key {
	inYears(&k.CreatedAt)
	inYearsOrNull(&k.ExpiresAt, &k.LastUsedAt, &k.RevokedAt)
	return k
}

// CreatedKey is a key that was just made. It alone has the token.
type CreatedKey struct {
	access.Key
	// Token is what callers present. It is kept nowhere, and cannot be shown again.
	Token string `json:"token"`
}

// DoneOf is a row of the audit log as it is shown.
func DoneOf(d access.Done) access.Done {
	inYears(&d.At)
	return d
}

// NewAuditList is a page of at most size rows of the audit log; found has one more where the list goes on.
func NewAuditList(found []access.Done, size int) List[access.Done] {
	return PageOf(DoneOf, found, size, func(d access.Done) string { return rowText(d.ID) })
}

// Me is the key of a request, and what it may do.
type Me struct {
	// ID is the id of the key.
	ID string `json:"id"`
	// Name says whose key it is or what for. The audit log has it as the actor.
	Name string `json:"name"`
	// Scopes are what the key may do; admin stands for all.
	Scopes []access.Scope `json:"scopes"`
	// Sources are the sources whose things the key sees and acts on, by name; ["*"] is all.
	Sources access.Sources `json:"sources"`
}
