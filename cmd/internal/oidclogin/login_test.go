package oidclogin

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	redirect = "https://postrider.example.com/login/oidc/back"
	secret   = "the-clients-secret"
)

// liar is an OpenID provider that can be made to say what no provider should. cmd/internal/console has the tests with a real
// one.
type liar struct {
	*httptest.Server
	key *rsa.PrivateKey

	down      atomic.Bool
	document  func(map[string]any)             // changes the discovery document
	claims    func(map[string]any)             // changes the claims of the ID token
	sign      func(head, body string) string   // signs it; nil is right
	token     func(w http.ResponseWriter) bool // answers instead of the token endpoint
	info      map[string]any                   // what the userinfo endpoint says; nil is none
	me        func(w http.ResponseWriter) bool // answers instead of the userinfo endpoint
	challenge string                           // of the last sign-in that was begun
	nonce     string                           // of it
	forms     []url.Values                     // what the token endpoint was sent
	logins    []string                         // the Authorization header of each
}

// itsKey is the key of all liars: making one takes long.
var itsKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newLiar(t *testing.T) *liar {
	t.Helper()
	key, err := itsKey()
	if err != nil {
		t.Fatal(err)
	}
	l := &liar{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		d := map[string]any{"issuer": l.URL, "authorization_endpoint": l.URL + "/auth", "token_endpoint": l.URL + "/token", "jwks_uri": l.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"}}
		if l.info != nil {
			d["userinfo_endpoint"] = l.URL + "/me"
		}
		if l.document != nil {
			l.document(d)
		}
		answer(w, d)
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
			"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()), "e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes())}}})
	})
	mux.HandleFunc("POST /token", l.giveToken)
	mux.HandleFunc("GET /me", func(w http.ResponseWriter, _ *http.Request) {
		if l.me == nil || !l.me(w) {
			answer(w, l.info)
		}
	})
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(l.Close)
	return l
}

func answer(w http.ResponseWriter, v any) { answerWith(w, http.StatusOK, v) }

func answerWith(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// giveToken is the token endpoint. Like a real one it looks at the verifier.
func (l *liar) giveToken(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	l.forms, l.logins = append(l.forms, r.PostForm), append(l.logins, r.Header.Get("Authorization"))
	if l.token != nil && l.token(w) {
		return
	}
	if sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier"))); base64.RawURLEncoding.EncodeToString(sum[:]) != l.challenge || r.PostForm.Get("redirect_uri") != redirect {
		answerWith(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "the verifier or the redirect is wrong"})
		return
	}
	now := time.Now()
	claims := map[string]any{"iss": l.URL, "aud": "postrider", "sub": "u1", "nonce": l.nonce, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		"email": "ann@example.com", "groups": []string{"sre", "all"}}
	if l.claims != nil {
		l.claims(claims)
	}
	body, _ := json.Marshal(claims)
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"1"}`))
	text := base64.RawURLEncoding.EncodeToString(body)
	signed := l.signed(l.key, head, text)
	if l.sign != nil {
		signed = l.sign(head, text)
	}
	answer(w, map[string]any{"access_token": "at-secret", "token_type": "Bearer", "id_token": signed})
}

func (l *liar) signed(key *rsa.PrivateKey, head, body string) string {
	sum := sha256.Sum256([]byte(head + "." + body))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return head + "." + body + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// provider is the liar as we see it.
func (l *liar) provider() *Provider {
	return New(Config{Issuer: l.URL, ClientID: "postrider", Secret: func() (string, error) { return secret, nil }, Scopes: []string{"openid", "email"},
		NameClaim: "email", GroupsClaim: "groups"})
}

// begin sends a browser to the provider, and returns what it comes back with.
func (l *liar) begin(t *testing.T, p *Provider) (Try, url.Values) {
	t.Helper()
	to, begun, err := p.Begin(redirect)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	q := at.Query()
	for name, want := range map[string]string{"response_type": "code", "client_id": "postrider", "redirect_uri": redirect, "scope": "openid email", "code_challenge_method": "S256", "state": begun.State, "nonce": begun.Nonce} {
		if q.Get(name) != want {
			t.Errorf("%s of the address is %q, want %q", name, q.Get(name), want)
		}
	}
	if strings.Contains(to, begun.Verifier) || strings.Contains(to, secret) {
		t.Errorf("the address tells a secret: %s", to)
	}
	l.challenge, l.nonce = q.Get("code_challenge"), q.Get("nonce")
	return begun, url.Values{"code": {"c1"}, "state": {begun.State}}
}

func TestAPersonSignsIn(t *testing.T) {
	t.Parallel()
	l := newLiar(t)
	p := l.provider()
	begun, back := l.begin(t, p)
	who, err := p.Finish(t.Context(), begun, redirect, back)
	if err != nil || who.Name != "ann@example.com" || who.Subject != "u1" || !who.HasGroups || !slices.Equal(who.Groups, []string{"sre", "all"}) {
		t.Fatalf("%+v, %v", who, err)
	}
	user, password, is := (&http.Request{Header: http.Header{"Authorization": l.logins}}).BasicAuth()
	if !is || user != "postrider" || password != secret {
		t.Errorf("we came to the token endpoint as %q with %q", user, password)
	}
	again, _ := l.begin(t, p)
	if again.State == begun.State || again.Nonce == begun.Nonce || again.Verifier == begun.Verifier {
		t.Error("two tries share a secret")
	}

	l.document = func(d map[string]any) { d["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"} }
	p = l.provider()
	begun, back = l.begin(t, p)
	if _, err := p.Finish(t.Context(), begun, redirect, back); err != nil {
		t.Error(err)
	}
	if last := len(l.forms) - 1; l.forms[last].Get("client_secret") != secret || l.logins[last] != "" {
		t.Errorf("a provider that wants the secret in the form gets %v and %q", l.forms[last], l.logins[last])
	}
}

// TestWhatDoesNotHold: a sign-in is refused whose answer is not right in every part, and the reason is said.
func TestWhatDoesNotHold(t *testing.T) {
	t.Parallel()
	set := func(name string, value any) func(*liar, Try, url.Values) {
		return func(l *liar, _ Try, _ url.Values) { l.claims = func(c map[string]any) { c[name] = value } }
	}
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(l *liar, begun Try, back url.Values)
		says  string
	}{
		"another state":         {func(_ *liar, _ Try, back url.Values) { back.Set("state", "x") }, "not begun in this browser"},
		"no state":              {func(_ *liar, _ Try, back url.Values) { back.Del("state") }, "not begun in this browser"},
		"no code":               {func(_ *liar, _ Try, back url.Values) { back.Del("code") }, "has no code"},
		"another issuer's":      {func(_ *liar, _ Try, back url.Values) { back.Set("iss", "https://evil.example") }, "evil.example"},
		"the provider says no":  {func(_ *liar, _ Try, back url.Values) { back.Set("error", "access_denied") }, "access_denied"},
		"another nonce":         {set("nonce", "x"), "nonce"},
		"no nonce":              {set("nonce", nil), "nonce"},
		"another audience":      {set("aud", "wiki"), "audience"},
		"another party":         {set("azp", "wiki"), "azp"},
		"another issuer":        {set("iss", "https://evil.example"), "issued by a different provider"},
		"expired":               {set("exp", time.Now().Add(-time.Minute).Unix()), "expired"},
		"not yet":               {set("nbf", time.Now().Add(time.Hour).Unix()), "nbf"},
		"no name":               {set("email", nil), "console.oidc_name_claim"},
		"a name that is a list": {set("email", []string{"x"}), "console.oidc_name_claim"},
		"not verified":          {set("email_verified", false), "not verified"},
		"groups are a number":   {set("groups", 3), "console.oidc_groups_claim"},
		"a group is a number":   {set("groups", []any{"a", 3}), "console.oidc_groups_claim"},
		"another key": {func(l *liar, _ Try, _ url.Values) {
			l.sign = func(head, body string) string { return l.signed(foreign, head, body) }
		}, "signature"},
		"no signature": {func(l *liar, _ Try, _ url.Values) {
			l.sign = func(_, body string) string {
				return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + body + "."
			}
		}, "does not hold"},
		"a key that is public": {func(l *liar, _ Try, _ url.Values) {
			l.sign = func(_, body string) string {
				return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","kid":"1"}`)) + "." + body + "." + base64.RawURLEncoding.EncodeToString([]byte("x"))
			}
		}, "does not hold"},
		"no ID token": {func(l *liar, _ Try, _ url.Values) {
			l.token = func(w http.ResponseWriter) bool { answer(w, map[string]any{"access_token": "at-secret"}); return true }
		}, "no ID token"},
		"the code was used": {func(l *liar, _ Try, _ url.Values) {
			l.token = func(w http.ResponseWriter) bool {
				answerWith(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
				return true
			}
		}, "invalid_grant"},
		"the code of another try": {func(l *liar, _ Try, _ url.Values) { l.challenge = "of another" }, "invalid_grant"},
		"no JSON": {func(l *liar, _ Try, _ url.Values) {
			l.token = func(w http.ResponseWriter) bool { _, _ = w.Write([]byte("at-secret {")); return true }
		}, "is none"},
	} {
		l := newLiar(t)
		p := l.provider()
		begun, back := l.begin(t, p)
		c.spoil(l, begun, back)
		who, err := p.Finish(t.Context(), begun, redirect, back)
		if !errors.Is(err, ErrRefused) || who.Name != "" {
			t.Errorf("%s: %+v, %v", name, who, err)
			continue
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the reason is %q", name, err)
		}
		for _, hidden := range []string{secret, "at-secret", begun.Verifier, begun.State} {
			if strings.Contains(err.Error(), hidden) {
				t.Errorf("%s: the reason tells a secret: %v", name, err)
			}
		}
	}
	p := newLiar(t).provider()
	if _, err := p.Finish(t.Context(), Try{}, redirect, url.Values{"state": {""}, "code": {"c1"}}); !errors.Is(err, ErrRefused) {
		t.Errorf("nothing was begun, and the state is empty: %v", err)
	}
}

// TestUserInfo: claims that the ID token lacks come from the userinfo endpoint, if it answers for the same person.
func TestUserInfo(t *testing.T) {
	t.Parallel()
	l := newLiar(t)
	l.info = map[string]any{"sub": "u1", "groups": "sre", "email": "mallory@example.com"}
	l.claims = func(c map[string]any) { maps.DeleteFunc(c, func(name string, _ any) bool { return name == "groups" }) }
	p := l.provider()
	begun, back := l.begin(t, p)
	who, err := p.Finish(t.Context(), begun, redirect, back)
	if err != nil || who.Name != "ann@example.com" || !slices.Equal(who.Groups, []string{"sre"}) {
		t.Errorf("%+v, %v", who, err)
	}
	l.info["sub"] = "u2"
	begun, back = l.begin(t, p)
	if _, err := p.Finish(t.Context(), begun, redirect, back); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "another person") {
		t.Errorf("the userinfo of another person: %v", err)
	}
}

// TestAnAddressIsVerifiedAtUserInfo: an ID token may have the address and the groups, and leave to the userinfo endpoint
// whether the address was verified.
func TestAnAddressIsVerifiedAtUserInfo(t *testing.T) {
	t.Parallel()
	l := newLiar(t)
	l.info = map[string]any{"sub": "u1", "email_verified": false}
	p := l.provider()
	begun, back := l.begin(t, p)
	if who, err := p.Finish(t.Context(), begun, redirect, back); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "not verified") {
		t.Errorf("an address that is not verified: %+v, %v", who, err)
	}
	l.info["email_verified"] = true
	begun, back = l.begin(t, p)
	if who, err := p.Finish(t.Context(), begun, redirect, back); err != nil || who.Name != "ann@example.com" {
		t.Errorf("an address that is verified: %+v, %v", who, err)
	}
}

// TestUserInfoDoesNotAnswer: the reason repeats nothing of what the endpoint wrote, which may be a token.
func TestUserInfoDoesNotAnswer(t *testing.T) {
	t.Parallel()
	l := newLiar(t)
	l.info = map[string]any{}
	p := l.provider()
	for _, me := range []func(w http.ResponseWriter) bool{
		func(w http.ResponseWriter) bool { http.Error(w, "at-secret is odd", http.StatusForbidden); return true },
		func(w http.ResponseWriter) bool { _, _ = w.Write([]byte("at-secret {")); return true },
	} {
		l.me = me
		begun, back := l.begin(t, p)
		if _, err := p.Finish(t.Context(), begun, redirect, back); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "console.oidc_scopes") || strings.Contains(err.Error(), "at-secret") {
			t.Errorf("%v", err)
		}
	}
	l.me = func(w http.ResponseWriter) bool { panic(http.ErrAbortHandler) }
	begun, back := l.begin(t, p)
	if _, err := p.Finish(t.Context(), begun, redirect, back); !errors.Is(err, ErrAway) {
		t.Errorf("the connection breaks: %v", err)
	}
}

// TestTheProviderIsAway: nothing is asked before the first sign-in, and it is asked again until it answers.
func TestTheProviderIsAway(t *testing.T) {
	t.Parallel()
	l := newLiar(t)
	p := l.provider()
	l.down.Store(true)
	for range 3 {
		if _, _, err := p.Begin(redirect); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), l.URL) || !strings.Contains(err.Error(), "503") {
			t.Fatalf("while it is away: %v", err)
		}
	}
	l.down.Store(false)
	p.failed = p.failed.Add(-failureKept)
	begun, back := l.begin(t, p)
	l.token = func(w http.ResponseWriter) bool { http.Error(w, "down", http.StatusBadGateway); return true }
	if _, err := p.Finish(t.Context(), begun, redirect, back); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "502") {
		t.Errorf("its token endpoint is away: %v", err)
	}
	l.token = nil
	if _, err := p.Finish(t.Context(), begun, redirect, back); err != nil {
		t.Errorf("it is back: %v", err)
	}

	l.document = func(d map[string]any) { d["issuer"] = l.URL + "/" }
	if _, err := l.provider().Look(); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "console.oidc_issuer") {
		t.Errorf("another issuer: %v", err)
	}
	l.document = func(d map[string]any) { d["token_endpoint"] = "" }
	if _, err := l.provider().Look(); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "token_endpoint") {
		t.Errorf("no token endpoint: %v", err)
	}
	l.document = func(d map[string]any) { d["code_challenge_methods_supported"] = []string{"plain"} }
	if warnings, err := l.provider().Look(); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "S256") {
		t.Errorf("no PKCE: %v, %v", warnings, err)
	}
	l.document = nil
	if warnings, err := l.provider().Look(); err != nil || len(warnings) != 0 {
		t.Errorf("a provider that is well: %v, %v", warnings, err)
	}
}
