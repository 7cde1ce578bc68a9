package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
)

// Console is the section console. The console is served at / beside the API, where http.api is true.
type Console struct {
	// Enabled serves the web console. Defaults to true.
	Enabled bool `key:"enabled" default:"true" help:"serve the web console at /, beside the API"`
	// URL is where browsers reach it, such as https://postrider.example.com; sign-in links begin with it, and cookies are
	// for https alone where it begins so. With oidc_issuer plain http is refused but for this machine. Without it, a browser that comes by plain http must be on the same machine.
	// Defaults to "".
	URL string `key:"url" default:"" check:"url" help:"where browsers reach the console, such as https://postrider.example.com; empty is this machine"`
	// Name says on each page which installation it is, such as production. Defaults to "".
	Name string `key:"name" default:"" check:"label" help:"which installation this is, such as production; on each page"`
	// SessionAge is how long a session lasts at most. In hours. Defaults to 12.
	SessionAge time.Duration `key:"session_hours" default:"12" min:"1" max:"720" help:"hours that a session of the console lasts at most"`
	// SessionIdle is after how long without use a session ends. In minutes. Defaults to 120.
	SessionIdle time.Duration `key:"session_idle_minutes" default:"120" min:"5" max:"43200" help:"minutes without use after which a session ends"`
	// GroupScopes say what people may do that sign in by oidc or a proxy, by their groups: GROUP=SCOPE+SCOPE, for example
	// sre=read+resolve+redrive, or GROUP=SCOPE+SCOPE@SOURCE+SOURCE for some sources alone, for example
	// orders-team=read+resolve@orders. A group has one rule. A person in several groups sees the sources of all, and has the
	// scopes that these groups give at each of these sources. A person in none of them is not let in. In the name of a group a comma is written %2C and a % is written %25. Defaults to "".
	GroupScopes []string `key:"group_scopes" default:"" check:"group_scopes" help:"what groups may do, such as sre=read+resolve+redrive, separated by commas; for oidc and proxy_user_header"`
	// OIDCIssuer is the OpenID provider at which people sign in: the address under which it has
	// /.well-known/openid-configuration, as it writes it itself. It sends browsers back to console.url with
	// /login/oidc/back. In the file this and the settings below may stand in a block oidc. Without it there is no sign-in at a
	// provider. Defaults to "".
	OIDCIssuer string `key:"oidc_issuer" default:"" check:"issuer" help:"address of the OpenID provider at which people sign in; it sends them back to console.url with /login/oidc/back"`
	// OIDCLabel is what the button calls it: "Sign in with …"; needs oidc_issuer. Without it the host of the issuer is named.
	// Defaults to "".
	OIDCLabel string `key:"oidc_label" default:"" check:"label" help:"what the button calls it, as in Sign in with …; empty is the host of the issuer"`
	// OIDCClientID is the name of this installation at the provider; needs oidc_issuer. Defaults to "".
	OIDCClientID string `key:"oidc_client_id" default:"" check:"optional" help:"name of this installation at the OpenID provider"`
	// OIDCClientSecret is its password there. A provider may let a public client in without one: PKCE is used always.
	// Keep it out of the file: give CONSOLE_OIDC_CLIENT_SECRET in the environment, or better oidc_client_secret_file.
	// Defaults to "".
	OIDCClientSecret Secret `key:"oidc_client_secret" default:"" check:"optional" help:"password of this installation at the OpenID provider; better console.oidc_client_secret_file"`
	// OIDCClientSecretFile is a file that has nothing but that password; it is read again for each sign-in. Defaults to "".
	OIDCClientSecretFile string `key:"oidc_client_secret_file" default:"" check:"optional" help:"file with the password of this installation at the OpenID provider, read again for each sign-in"`
	// OIDCScopes are the scopes of OpenID to ask for; openid must be one. Some providers give groups for a scope groups
	// alone. Defaults to "openid,profile,email".
	OIDCScopes []string `key:"oidc_scopes" default:"openid,profile,email" help:"scopes of OpenID to ask for, openid among them, separated by commas"`
	// OIDCNameClaim is the claim that names the person, on pages and in the audit log. It should be one that people cannot
	// choose for themselves. An address that the provider says it has not verified is refused. Defaults to "email".
	OIDCNameClaim string `key:"oidc_name_claim" default:"email" help:"claim that names the person, on pages and in the audit log"`
	// OIDCGroupsClaim is the claim that has the person's groups, a list of texts or one text, in the ID token or at the
	// userinfo endpoint. Defaults to "groups".
	OIDCGroupsClaim string `key:"oidc_groups_claim" default:"groups" help:"claim that has the groups of the person"`
	// ProxyUserHeader is the header in which an authenticating proxy names the person, for example X-Forwarded-User. It
	// counts from http.trusted_proxies alone, and needs proxy_groups_header. The proxy must set or remove both headers on
	// every request: otherwise a client writes them itself. A header that means something else in HTTP, such as Cookie, Host or
	// X-Forwarded-For, is refused. Without it no header names people. Defaults to "".
	ProxyUserHeader string `key:"proxy_user_header" default:"" check:"header_name" help:"header in which a trusted proxy names the person, such as X-Forwarded-User; empty is none"`
	// ProxyGroupsHeader is the header in which that proxy names the person's groups, separated by commas, for example
	// X-Forwarded-Groups. It must not be the header of the name. Defaults to "".
	ProxyGroupsHeader string `key:"proxy_groups_header" default:"" check:"header_name" help:"header in which that proxy names the groups of the person, such as X-Forwarded-Groups; empty is none"`
}

// Trusted are TrustedProxies as networks.
func (h HTTP) Trusted() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range h.TrustedProxies {
		if p, err := network(text); err == nil { // Load has refused others
			all = append(all, p)
		}
	}
	return all
}

// network reads a network, or one address as the network of it alone.
func network(text string) (netip.Prefix, error) {
	if at, err := netip.ParseAddr(text); err == nil {
		at = at.Unmap().WithZone("")
		return netip.PrefixFrom(at, at.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

func checkNetwork(text string) error {
	p, err := network(text)
	switch {
	case err != nil || p.Masked() != p || p.Addr().Is4In6():
		return errors.New("each must be an IP address, or a network such as 10.0.0.0/8 without bits behind its length")
	case p.Bits() < shortest(p.Addr()):
		return errors.New("each must be narrower: every client in it could say which address, and which person, it is; name the addresses of the proxy, or networks of at least /8 of IPv4, /16 of IPv6 and /7 in fc00::/7")
	}
	return nil
}

// shortest is the fewest bits that a network of proxies may have. What is wider is no network of proxies, and two halves
// of all addresses are as bad as all.
func shortest(at netip.Addr) int {
	switch {
	case at.Is4():
		return 8
	case netip.MustParsePrefix("fc00::/7").Contains(at): // private networks
		return 7
	}
	return 16
}

// Groups are GroupScopes by the names of the groups.
func (c Console) Groups() access.GroupScopes {
	all, _ := access.ParseGroupScopes(c.GroupScopes) // Load has refused others
	return all
}

func checkGroupScopes(text string) error {
	_, err := access.ParseGroupScopes([]string{text})
	return err
}

// ClientSecret is OIDCClientSecret, or what OIDCClientSecretFile has now.
func (c Console) ClientSecret() (string, error) {
	if c.OIDCClientSecretFile == "" {
		return c.OIDCClientSecret.Reveal(), nil
	}
	return ReadSecretFile("console.oidc_client_secret_file", c.OIDCClientSecretFile)
}

// checkIssuer accepts https, and plain http on the same machine.
func checkIssuer(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("it must be a URL such as https://login.example.com/realms/main")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("it must have no login, and end with its path")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return errors.New("it must begin with https://: over plain http the answers of the provider could be replaced on their way")
	}
	return nil
}

func loopback(host string) bool {
	at, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && at.IsLoopback()
}

func checkHeaderName(text string) error {
	if text != "" && !headerName.MatchString(text) {
		return errors.New("it must be the name of a header, such as X-Forwarded-User")
	}
	if name := http.CanonicalHeaderKey(text); slices.Contains(takenHeaders, name) ||
		slices.ContainsFunc([]string{"Accept", "Access-Control-", "Content-", "If-", "Sec-"}, func(start string) bool { return strings.HasPrefix(name, start) }) {
		return errors.New("it must be a header that the proxy alone sets, such as X-Forwarded-User: this one means something else in HTTP")
	}
	return nil
}

// takenHeaders are headers of browsers, of HTTP and of proxies that name no person.
var takenHeaders = []string{"Authorization", "Cache-Control", "Connection", "Cookie", "Date", "Expect", "Forwarded", "Host",
	"Idempotency-Key", "Keep-Alive", "Last-Event-Id", "Origin", "Pragma", "Proxy-Authorization", "Range", "Referer", "Set-Cookie", "Te",
	"Traceparent", "Tracestate", "Trailer", "Transfer-Encoding", "Upgrade", "Upgrade-Insecure-Requests", "User-Agent", "Via",
	"X-Api-Key", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-Ip", "X-Request-Id"}

// checkSignIn compares the settings of signing in with each other.
func (c *Config) checkSignIn() []error {
	var problems []error
	issuer, oidc := c.given("console.oidc_issuer")
	user, proxy := c.given("console.proxy_user_header")
	groups, mapped := c.given("console.group_scopes")
	if _, err := access.ParseGroupScopes(c.Console.GroupScopes); err != nil { // each rule alone is right
		problems = append(problems, fmt.Errorf("%s (%s): %w", groups, c.origin(groups), err))
	}
	if oidc {
		problems = append(problems, c.checkOIDC(issuer)...)
	} else {
		for _, k := range c.changed("console.oidc_") {
			problems = append(problems, fmt.Errorf("%s is given (%s) and %s is not set; give it, too, or leave this out", k, c.origin(k), issuer))
		}
	}
	list, _ := c.given("console.proxy_groups_header")
	switch {
	case !proxy && c.Console.ProxyGroupsHeader != "":
		problems = append(problems, fmt.Errorf("%s is given (%s) and %s is not set; give both, or none", list, c.origin(list), user))
	case proxy && c.Console.ProxyGroupsHeader == "":
		problems = append(problems, fmt.Errorf("%s is given (%s) and %s is not set; give both, or none", user, c.origin(user), list))
	case proxy && strings.EqualFold(c.Console.ProxyUserHeader, c.Console.ProxyGroupsHeader):
		problems = append(problems, fmt.Errorf("%s (%s) and %s (%s) are the same header, %s: the name of a person would be a group; give two headers",
			user, c.origin(user), list, c.origin(list), c.Console.ProxyUserHeader))
	}
	if proxies, _ := named("http.trusted_proxies"); proxy && len(c.HTTP.TrustedProxies) == 0 {
		problems = append(problems, fmt.Errorf("%s is given (%s) and %s is not set; name the addresses of the proxy there: from others the header says nothing", user, c.origin(user), proxies))
	}
	switch {
	case (oidc || proxy) && !mapped:
		by := issuer
		if !oidc {
			by = user
		}
		problems = append(problems, fmt.Errorf("%s is given (%s) and %s is not set: no person could sign in; give it, such as sre=read+resolve+redrive", by, c.origin(by), groups))
	case mapped && !oidc && !proxy:
		problems = append(problems, fmt.Errorf("%s is given (%s), and neither %s nor %s is set; give one of them, too, or leave this out", groups, c.origin(groups), issuer, user))
	}
	return problems
}

// changed are the keys with a beginning whose values are not their defaults.
func (c *Config) changed(beginning string) []Key {
	return slices.DeleteFunc(slices.Clone(keys()), func(k Key) bool {
		return !strings.HasPrefix(k.String(), beginning) || k.text(*c) == k.Default
	})
}

// consoleWarnings are the warnings about settings of the console that change nothing.
func (c Config) consoleWarnings() []string {
	var warnings []string
	api, _ := named("http.api")
	enabled, _ := named("console.enabled")
	if !c.HTTP.API && c.Console.Enabled && c.origin(enabled) != "default" {
		warnings = append(warnings, fmt.Sprintf("%s is true (%s) and %s is false (%s): the console is served beside the API alone, and so not at all",
			enabled, c.origin(enabled), api, c.origin(api)))
	}
	for _, k := range c.changed("console.") {
		if !c.Console.Enabled && k.String() != enabled.String() {
			warnings = append(warnings, fmt.Sprintf("%s is given (%s) and changes nothing: %s is false (%s)", k, c.origin(k), enabled, c.origin(enabled)))
		}
	}
	age, _ := named("console.session_hours")
	if idle, _ := named("console.session_idle_minutes"); c.Console.SessionIdle > c.Console.SessionAge && c.origin(idle) != "default" {
		warnings = append(warnings, fmt.Sprintf("%s is %s (%s) and changes nothing: a session ends after %s, which is %s (%s)",
			idle, idle.text(c), c.origin(idle), age, age.text(c), c.origin(age)))
	}
	return warnings
}

// checkOIDC looks at what a provider needs.
func (c *Config) checkOIDC(issuer Key) []error {
	var problems []error
	if id, is := c.given("console.oidc_client_id"); !is {
		problems = append(problems, fmt.Errorf("%s is given (%s) and %s is not set; give the name under which the provider knows this installation", issuer, c.origin(issuer), id))
	}
	if at, err := url.Parse(c.Console.URL); err == nil && at.Scheme == "http" && !loopback(at.Hostname()) {
		own, _ := named("console.url")
		problems = append(problems, fmt.Errorf("%s is given (%s) and %s is %q (%s); it must begin with https://: over plain http the answer of the provider and the session could be read on their way",
			issuer, c.origin(issuer), own, c.Console.URL, c.origin(own)))
	}
	secret, one := c.given("console.oidc_client_secret")
	file, two := c.given("console.oidc_client_secret_file")
	if one && two {
		problems = append(problems, fmt.Errorf("%s (%s) and %s (%s) are both set; give one", secret, c.origin(secret), file, c.origin(file)))
	}
	if name, _ := named("console.oidc_name_claim"); c.Console.OIDCNameClaim == c.Console.OIDCGroupsClaim {
		groups, _ := named("console.oidc_groups_claim")
		problems = append(problems, fmt.Errorf("%s (%s) and %s (%s) are the same claim, %s: the name of a person would be a group; give two claims",
			name, c.origin(name), groups, c.origin(groups), c.Console.OIDCNameClaim))
	}
	if scopes, _ := named("console.oidc_scopes"); !slices.Contains(c.Console.OIDCScopes, "openid") || slices.ContainsFunc(c.Console.OIDCScopes, func(s string) bool { return strings.ContainsAny(s, " \t\"\\") }) {
		problems = append(problems, fmt.Errorf("%s is %q (%s); it must have openid, and words without blanks and quotes", scopes, strings.Join(c.Console.OIDCScopes, ","), c.origin(scopes)))
	}
	return problems
}
