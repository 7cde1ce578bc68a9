package oidclogin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Try is a sign-in that was begun. The browser alone keeps it until it comes back.
type Try struct {
	// State is in the address that the browser comes back with: the try began in this browser.
	State string `json:"s"`
	// Nonce is in the ID token: it was made for this try.
	Nonce string `json:"n"`
	// Verifier shows that the code was asked for by this try (PKCE).
	Verifier string `json:"v"`
}

// Person is who signed in.
type Person struct {
	// Name is the value of the claim that names people.
	Name string
	// Subject is the provider's own id of the person, which no two people have.
	Subject string
	// Groups are the person's groups, as the provider has them.
	Groups []string
	// HasGroups says that the claim of the groups was there.
	HasGroups bool
}

// Begin returns the address to send a browser to, which comes back to redirect, and what the browser is to keep.
func (p *Provider) Begin(redirect string) (address string, t Try, err error) {
	d, err := p.discover()
	if err != nil {
		return "", Try{}, err
	}
	o, err := p.oauth(d, redirect)
	if err != nil {
		return "", Try{}, err
	}
	t = Try{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return o.AuthCodeURL(t.State, oidc.Nonce(t.Nonce), oauth2.S256ChallengeOption(t.Verifier)), t, nil
}

// Finish says who came back, with the address that the provider gave the browser. A try may be finished once: the caller
// takes it from the browser. The redirect is that of Begin.
func (p *Provider) Finish(ctx context.Context, t Try, redirect string, back url.Values) (Person, error) {
	if t.State == "" || subtle.ConstantTimeCompare([]byte(t.State), []byte(back.Get("state"))) != 1 {
		return Person{}, refuse("this sign-in was not begun in this browser, was begun more than ten minutes ago, or has been used")
	}
	if issuer := back.Get("iss"); issuer != "" && issuer != p.cfg.Issuer {
		return Person{}, refuse("the answer is from the issuer %q and not from %s", short(issuer), p.cfg.Issuer)
	}
	if said := back.Get("error"); said != "" {
		return Person{}, refuse("the provider says %q", short(strings.TrimSpace(said+" "+back.Get("error_description"))))
	}
	if back.Get("code") == "" {
		return Person{}, refuse("the answer of the provider has no code")
	}
	d, err := p.discover()
	if err != nil {
		return Person{}, err
	}
	o, err := p.oauth(d, redirect)
	if err != nil {
		return Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := o.Exchange(ctx, back.Get("code"), oauth2.VerifierOption(t.Verifier))
	if err != nil {
		return Person{}, exchangeError(err)
	}
	raw, is := token.Extra("id_token").(string)
	if !is {
		return Person{}, refuse("the provider gave no ID token; see that console.oidc_scopes has openid")
	}
	claims, subject, err := p.verify(ctx, d, t, raw)
	if err != nil {
		return Person{}, err
	}
	unsure := p.cfg.NameClaim == "email" && claims["email_verified"] == nil // an ID token may leave that to userinfo
	if (unsure || claims[p.cfg.NameClaim] == nil || claims[p.cfg.GroupsClaim] == nil) && d.UserInfoURL != "" {
		if err := addUserInfo(ctx, d, token, subject, claims); err != nil {
			return Person{}, err
		}
	}
	return p.person(subject, claims)
}

// exchangeError says why a code was not taken. It repeats no answer of the provider as a whole: a token may be in it.
func exchangeError(err error) error {
	if e, is := errors.AsType[*oauth2.RetrieveError](err); is {
		if e.Response != nil && e.Response.StatusCode >= 500 {
			return fmt.Errorf("%w: its token endpoint answers %s", ErrAway, e.Response.Status)
		}
		if e.ErrorCode == "" && e.Response != nil {
			return refuse("the provider did not take the code: its token endpoint answers %s", e.Response.Status)
		}
		return refuse("the provider did not take the code: %s", short(strings.TrimSpace(e.ErrorCode+" "+e.ErrorDescription)))
	}
	if e, is := errors.AsType[*url.Error](err); is {
		return fmt.Errorf("%w: %s", ErrAway, short(e.Error()))
	}
	return refuse("the answer of the token endpoint is none")
}

// verify reads the ID token: its signature, issuer, audience, times and nonce must be right.
func (p *Provider) verify(ctx context.Context, d *discovered, t Try, raw string) (claims map[string]any, subject string, err error) {
	token, err := d.Verifier(&oidc.Config{ClientID: p.cfg.ClientID}).Verify(ctx, raw)
	if err != nil {
		if e, is := errors.AsType[*url.Error](err); is {
			return nil, "", fmt.Errorf("%w: its keys: %s", ErrAway, short(e.Error()))
		}
		return nil, "", refuse("the ID token does not hold: %s", short(err.Error()))
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(t.Nonce)) != 1 {
		return nil, "", refuse("the ID token does not hold: its nonce is not that of this sign-in")
	}
	if err := token.Claims(&claims); err != nil {
		return nil, "", refuse("the ID token does not hold: %s", short(err.Error()))
	}
	if party, is := claims["azp"].(string); is && party != p.cfg.ClientID {
		return nil, "", refuse("the ID token does not hold: it was made for %q (azp) and not for %q", short(party), p.cfg.ClientID)
	}
	return claims, token.Subject, nil
}

// addUserInfo adds claims that the ID token does not have. Many providers keep it small.
func addUserInfo(ctx context.Context, d *discovered, token *oauth2.Token, subject string, claims map[string]any) error {
	info, err := d.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		if e, is := errors.AsType[*url.Error](err); is {
			return fmt.Errorf("%w: its userinfo endpoint: %s", ErrAway, short(e.Error()))
		}
		return refuse("the userinfo endpoint did not answer with claims; see console.oidc_scopes") // the error has the answer, which is not repeated
	}
	if info.Subject != subject {
		return refuse("the userinfo endpoint answers for another person than the ID token")
	}
	var more map[string]any
	if err := info.Claims(&more); err != nil {
		return refuse("the answer of the userinfo endpoint does not hold: %s", short(err.Error()))
	}
	for name, value := range more {
		if claims[name] == nil {
			claims[name] = value
		}
	}
	return nil
}

// person reads the claims that name a person and the person's groups.
func (p *Provider) person(subject string, claims map[string]any) (Person, error) {
	name, is := claims[p.cfg.NameClaim].(string)
	if !is || strings.TrimSpace(name) == "" {
		var there []string
		for claim := range claims {
			there = append(there, claim)
		}
		slices.Sort(there)
		return Person{}, refuse("the provider gives no claim %q, which is to name the person; it gives %s; choose one as console.oidc_name_claim, or ask for more by console.oidc_scopes",
			p.cfg.NameClaim, short(strings.Join(there, ", ")))
	}
	if verified, is := claims["email_verified"]; p.cfg.NameClaim == "email" && is && verified != true && verified != "true" {
		return Person{}, refuse("the provider has not verified the address %q; anybody could have written it", short(name))
	}
	who := Person{Name: strings.TrimSpace(name), Subject: subject}
	value, has := claims[p.cfg.GroupsClaim]
	who.HasGroups = has
	switch value := value.(type) {
	case nil:
	case string:
		who.Groups = []string{value}
	case []any:
		for _, one := range value {
			group, is := one.(string)
			if !is {
				return Person{}, refuse("the claim %q has something else than texts; choose the claim with the groups as console.oidc_groups_claim", p.cfg.GroupsClaim)
			}
			who.Groups = append(who.Groups, group)
		}
	default:
		return Person{}, refuse("the claim %q is no list of texts; choose the claim with the groups as console.oidc_groups_claim", p.cfg.GroupsClaim)
	}
	return who, nil
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)
}
