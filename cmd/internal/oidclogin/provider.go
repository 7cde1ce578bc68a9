package oidclogin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/postrider/postrider/cmd/internal/config"
)

var (
	// ErrAway is wrapped when the provider cannot be asked, or does not answer as a provider does.
	ErrAway = errors.New("the OpenID provider cannot be asked")
	// ErrRefused is wrapped when the sign-in is refused: the provider says no, or what came back does not hold.
	ErrRefused = errors.New("the sign-in was refused")
)

// Config says which provider, and as whom we come. Issuer, ClientID, Scopes, NameClaim and GroupsClaim are required.
type Config struct {
	// Issuer is the provider's address, under which its discovery document is. Required.
	Issuer string
	// ClientID is our name at the provider. Required.
	ClientID string
	// Secret returns our password there, anew for each sign-in; empty for a public client. Defaults to none.
	Secret func() (string, error)
	// Scopes are what is asked for, openid among them. Required.
	Scopes []string
	// NameClaim has the name of the person. Required.
	NameClaim string
	// GroupsClaim has the groups of the person, a list of texts or one text. Required.
	GroupsClaim string
	// Timeout bounds each request to the provider. Defaults to 10s.
	Timeout time.Duration
}

// failureKept is for how long a provider that could not be read is not asked again.
const failureKept = 2 * time.Second

// Provider is an OpenID provider. It is read when it is needed first, and again until that succeeds.
type Provider struct {
	cfg    Config
	client *http.Client

	mu      sync.Mutex
	found   *discovered
	failure error
	failed  time.Time
}

// discovered is a provider as its discovery document has it.
type discovered struct {
	*oidc.Provider
	metadata
}

// metadata is what the discovery document has beside what the library reads.
type metadata struct {
	AuthURL     string   `json:"authorization_endpoint"`
	TokenURL    string   `json:"token_endpoint"`
	UserInfoURL string   `json:"userinfo_endpoint"`
	KeysURL     string   `json:"jwks_uri"`
	Logins      []string `json:"token_endpoint_auth_methods_supported"`
	Challenges  []string `json:"code_challenge_methods_supported"`
}

// New returns the provider without asking it.
func New(cfg Config) *Provider {
	if cfg.Secret == nil {
		cfg.Secret = func() (string, error) { return "", nil }
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	return &Provider{cfg: cfg, client: &http.Client{Timeout: cfg.Timeout, CheckRedirect: stay}}
}

// Of is the provider of the settings; nil where they name none.
func Of(c config.Console) *Provider {
	if c.OIDCIssuer == "" {
		return nil
	}
	return New(Config{
		Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, Secret: c.ClientSecret, Scopes: c.OIDCScopes, NameClaim: c.OIDCNameClaim, GroupsClaim: c.OIDCGroupsClaim,
	})
}

// stay follows no redirect of a request that carries a code and a secret.
func stay(_ *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet || len(via) >= 5 {
		return http.ErrUseLastResponse
	}
	return nil
}

// Issuer is the provider's address.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// discover reads the discovery document, once it can be read. Requests that wait for the same answer get it together.
func (p *Provider) discover() (*discovered, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil || p.failure != nil && time.Since(p.failed) < failureKept {
		return p.found, p.failure
	}
	p.found, p.failure = p.read()
	p.failed = time.Now()
	return p.found, p.failure
}

func (p *Provider) read() (*discovered, error) {
	// The keys of the provider are read with this context, too, as long as the process lives.
	found, err := oidc.NewProvider(oidc.ClientContext(context.Background(), p.client), p.cfg.Issuer)
	if err != nil {
		if other, is := errors.AsType[*oidc.IssuerMismatchError](err); is {
			return nil, fmt.Errorf("%w: %s says that its issuer is %q; write console.oidc_issuer in just this way", ErrAway, p.cfg.Issuer, other.Discovered)
		}
		return nil, fmt.Errorf("%w: reading %s/.well-known/openid-configuration: %s", ErrAway, strings.TrimSuffix(p.cfg.Issuer, "/"), short(err.Error()))
	}
	d := &discovered{Provider: found}
	if err := found.Claims(&d.metadata); err != nil {
		return nil, fmt.Errorf("%w: %s: its discovery document: %s", ErrAway, p.cfg.Issuer, short(err.Error()))
	}
	own, err := url.Parse(p.cfg.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	for name, at := range map[string]string{"authorization_endpoint": d.AuthURL, "token_endpoint": d.TokenURL, "jwks_uri": d.KeysURL, "userinfo_endpoint": d.UserInfoURL} {
		if at == "" && name == "userinfo_endpoint" {
			continue
		}
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != own.Scheme {
			return nil, fmt.Errorf("%w: the discovery document of %s has the %s %q, which is not an address with %s", ErrAway, p.cfg.Issuer, name, short(at), own.Scheme)
		}
	}
	return d, nil
}

// Look reads the discovery document and returns what is worth a warning; nothing where all is well.
func (p *Provider) Look() (warnings []string, err error) {
	d, err := p.discover()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(d.Challenges, "S256") {
		warnings = append(warnings, "its discovery document does not say that it knows PKCE (code_challenge_methods_supported has no S256)")
	}
	return warnings, nil
}

// oauth is how we come to the provider. The redirect is where it sends browsers back to.
func (p *Provider) oauth(d *discovered, redirect string) (*oauth2.Config, error) {
	secret, err := p.cfg.Secret()
	if err != nil {
		return nil, err
	}
	at := d.Endpoint()
	at.AuthStyle = oauth2.AuthStyleInHeader
	if secret == "" || len(d.Logins) > 0 && !slices.Contains(d.Logins, "client_secret_basic") {
		at.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{ClientID: p.cfg.ClientID, ClientSecret: secret, Endpoint: at, RedirectURL: redirect, Scopes: p.cfg.Scopes}, nil
}

// short is a text of the provider, bounded for logs and pages.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return text
}
