package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSettingsOfSigningInFitTogether(t *testing.T) {
	t.Parallel()
	oidc := []string{"CONSOLE_OIDC_ISSUER=https://login.example.com/main", "CONSOLE_OIDC_CLIENT_ID=me", "CONSOLE_GROUP_SCOPES=sre=read"}
	proxy := []string{"HTTP_TRUSTED_PROXIES=10.0.0.1", "CONSOLE_PROXY_USER_HEADER=X-User", "CONSOLE_PROXY_GROUPS_HEADER=X-Groups", "CONSOLE_GROUP_SCOPES=sre=read"}
	with := func(to []string, more ...string) []string { return slices.Concat(to, more) }
	for name, c := range map[string]struct {
		environ []string
		want    []string // none is right
	}{
		"a public client":       {environ: oidc},
		"a secret":              {environ: with(oidc, "CONSOLE_OIDC_CLIENT_SECRET=sentinel")},
		"on this machine":       {environ: []string{"CONSOLE_OIDC_ISSUER=http://localhost:5556/dex", oidc[1], oidc[2]}},
		"a proxy":               {environ: proxy},
		"both":                  {environ: with(proxy, oidc...)},
		"networks of both":      {environ: []string{"HTTP_TRUSTED_PROXIES=10.0.0.0/8, fd00::/8,::1"}},
		"plain http":            {environ: []string{"CONSOLE_OIDC_ISSUER=http://login.example.com", oidc[1], oidc[2]}, want: []string{"console.oidc_issuer", "https://"}},
		"no URL":                {environ: []string{"CONSOLE_OIDC_ISSUER=login.example.com", oidc[1], oidc[2]}, want: []string{"console.oidc_issuer", "must be a URL"}},
		"a login in the issuer": {environ: []string{"CONSOLE_OIDC_ISSUER=https://a:sentinel@login.example.com", oidc[1], oidc[2]}, want: []string{"console.oidc_issuer", "no login"}},
		"no client":             {environ: []string{oidc[0], oidc[2]}, want: []string{"console.oidc_issuer is given (environment variable CONSOLE_OIDC_ISSUER) and console.oidc_client_id is not set"}},
		"no groups":             {environ: oidc[:2], want: []string{"console.oidc_issuer is given", "console.group_scopes is not set: no person could sign in"}},
		"two secrets":           {environ: with(oidc, "CONSOLE_OIDC_CLIENT_SECRET=sentinel", "CONSOLE_OIDC_CLIENT_SECRET_FILE=f"), want: []string{"are both set; give one"}},
		"no openid":             {environ: with(oidc, "CONSOLE_OIDC_SCOPES=email"), want: []string{"console.oidc_scopes", "must have openid"}},
		"a client alone":        {environ: []string{"CONSOLE_OIDC_CLIENT_ID=me"}, want: []string{"console.oidc_client_id is given", "console.oidc_issuer is not set"}},
		"a label alone":         {environ: []string{"CONSOLE_OIDC_LABEL=Example"}, want: []string{"console.oidc_label is given (environment variable CONSOLE_OIDC_LABEL) and console.oidc_issuer is not set"}},
		"scopes alone":          {environ: []string{"CONSOLE_OIDC_SCOPES=openid,groups"}, want: []string{"console.oidc_scopes is given", "console.oidc_issuer is not set"}},
		"claims alone":          {environ: []string{"CONSOLE_OIDC_NAME_CLAIM=name", "CONSOLE_OIDC_GROUPS_CLAIM=roles"}, want: []string{"console.oidc_name_claim is given", "console.oidc_groups_claim is given"}},
		"defaults alone":        {environ: []string{"CONSOLE_OIDC_SCOPES=openid,profile,email", "CONSOLE_OIDC_NAME_CLAIM=email", "CONSOLE_OIDC_LABEL="}},
		"one claim for both":    {environ: with(oidc, "CONSOLE_OIDC_NAME_CLAIM=groups"), want: []string{"console.oidc_name_claim", "console.oidc_groups_claim", "are the same claim, groups"}},
		"a secret alone":        {environ: []string{"CONSOLE_OIDC_CLIENT_SECRET=sentinel"}, want: []string{"console.oidc_client_secret is given", "console.oidc_issuer is not set"}},
		"groups alone":          {environ: oidc[2:], want: []string{"console.group_scopes is given", "neither console.oidc_issuer nor console.proxy_user_header"}},
		"an unknown scope":      {environ: with(oidc[:2], "CONSOLE_GROUP_SCOPES=sre=root"), want: []string{"console.group_scopes", `scope "root" is not known`}},
		"no proxy trusted":      {environ: proxy[1:], want: []string{"console.proxy_user_header is given", "http.trusted_proxies is not set"}},
		"everybody trusted":     {environ: []string{"HTTP_TRUSTED_PROXIES=10.0.0.0/8,0.0.0.0/0"}, want: []string{"http.trusted_proxies", "each must be narrower", "at least /8"}},
		"everybody of IPv6":     {environ: []string{"HTTP_TRUSTED_PROXIES=::/0"}, want: []string{"each must be narrower"}},
		"everybody in halves":   {environ: with(proxy[1:], "HTTP_TRUSTED_PROXIES=0.0.0.0/1,128.0.0.0/1"), want: []string{"each must be narrower"}},
		"the half of IPv6":      {environ: []string{"HTTP_TRUSTED_PROXIES=2000::/3"}, want: []string{"each must be narrower"}},
		"wide networks":         {environ: []string{"HTTP_TRUSTED_PROXIES=10.0.0.0/8,fc00::/7,2001::/16"}},
		"plain http, provider":  {environ: with(oidc, "CONSOLE_URL=http://p.example.com"), want: []string{"console.url is \"http://p.example.com\" (environment variable CONSOLE_URL)", "must begin with https://"}},
		"the provider, here":    {environ: with(oidc, "CONSOLE_URL=http://localhost:8080")},
		"a group twice":         {environ: with(oidc[:2], "CONSOLE_GROUP_SCOPES=sre=read,dev=read,sre=admin"), want: []string{"console.group_scopes", `the group "sre" is there twice`}},
		"a name that misleads":  {environ: []string{"CONSOLE_NAME=prod\u202eabc"}, want: []string{"console.name", "marks of direction"}},
		"a name with a bell":    {environ: []string{"CONSOLE_NAME=prod\aabc"}, want: []string{"console.name", "control characters"}},
		"a label that misleads": {environ: with(oidc, "CONSOLE_OIDC_LABEL=prod\u2066abc"), want: []string{"console.oidc_label", "marks of direction"}},
		"two items":             {environ: []string{"HTTP_TRUSTED_PROXIES=10.0.0.1,zzz,10.0.0.0/33"}, want: []string{`"zzz", "10.0.0.0/33": each must be an IP address`}},
		"four mistakes": {environ: with(oidc[:2], "CONSOLE_GROUP_SCOPES=a=root,b,ok=read,=read,c=chief"),
			want: []string{`"a=root": scope "root"`, `"b": each must be`, `"=read": each must be GROUP=SCOPE+SCOPE, with a group`, `"c=chief": scope "chief"`}},
		"one header for both":   {environ: []string{proxy[0], "CONSOLE_PROXY_USER_HEADER=X-U", "CONSOLE_PROXY_GROUPS_HEADER=x-u", proxy[3]}, want: []string{"are the same header, X-U"}},
		"a header of browsers":  {environ: []string{proxy[0], "CONSOLE_PROXY_USER_HEADER=cookie", proxy[2], proxy[3]}, want: []string{"console.proxy_user_header", "the proxy alone sets"}},
		"a header of HTTP":      {environ: []string{proxy[0], proxy[1], "CONSOLE_PROXY_GROUPS_HEADER=Content-Type", proxy[3]}, want: []string{"console.proxy_groups_header", "the proxy alone sets"}},
		"Host":                  {environ: []string{proxy[0], "CONSOLE_PROXY_USER_HEADER=Host", proxy[2], proxy[3]}, want: []string{"the proxy alone sets"}},
		"Authorization":         {environ: []string{proxy[0], "CONSOLE_PROXY_USER_HEADER=Authorization", proxy[2], proxy[3]}, want: []string{"the proxy alone sets"}},
		"X-Forwarded-For":       {environ: []string{proxy[0], "CONSOLE_PROXY_USER_HEADER=x-forwarded-for", proxy[2], proxy[3]}, want: []string{"the proxy alone sets"}},
		"no header of groups":   {environ: []string{proxy[0], proxy[1], proxy[3]}, want: []string{"console.proxy_groups_header is not set"}},
		"no header of the user": {environ: []string{proxy[0], proxy[2]}, want: []string{"console.proxy_user_header is not set"}},
		"no header":             {environ: []string{proxy[0], "CONSOLE_PROXY_USER_HEADER=X User", proxy[2], proxy[3]}, want: []string{"console.proxy_user_header", "name of a header"}},
		"no network":            {environ: []string{"HTTP_TRUSTED_PROXIES=ingress"}, want: []string{"http.trusted_proxies", "IP address"}},
		"half a network":        {environ: []string{"HTTP_TRUSTED_PROXIES=10.1.0.0/8"}, want: []string{"http.trusted_proxies", "bits behind its length"}},
		"IPv4 in IPv6":          {environ: []string{"HTTP_TRUSTED_PROXIES=::ffff:10.0.0.0/104"}, want: []string{"http.trusted_proxies"}},
	} {
		got, err := Load(From{Environ: c.environ})
		if (err != nil) != (len(c.want) > 0) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
			continue
		}
		shown := got.String()
		if err != nil {
			shown = err.Error()
		}
		for _, want := range c.want {
			if !strings.Contains(shown, want) {
				t.Errorf("%s: %q is not in %s", name, want, shown)
			}
		}
		if strings.Contains(shown, "sentinel") {
			t.Errorf("%s: a secret is shown: %s", name, shown)
		}
	}
}

func TestSettingsOfTheConsoleThatChangeNothing(t *testing.T) {
	t.Parallel()
	for want, environ := range map[string][]string{
		"console.enabled is true (environment variable CONSOLE_ENABLED) and http.api is false":                                                                                {"CONSOLE_ENABLED=true", "HTTP_API=false"},
		"console.session_idle_minutes is 90 (environment variable CONSOLE_SESSION_IDLE_MINUTES) and changes nothing: a session ends after console.session_hours, which is 1 ": {"CONSOLE_SESSION_IDLE_MINUTES=90", "CONSOLE_SESSION_HOURS=1"},
		"console.name is given (environment variable CONSOLE_NAME) and changes nothing: console.enabled is false (environment variable CONSOLE_ENABLED)":                      {"CONSOLE_ENABLED=false", "CONSOLE_NAME=production"},
		"": {"CONSOLE_SESSION_HOURS=1", "HTTP_API=false"}, // a default is not a mistake
	} {
		c, err := Load(From{Environ: environ})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.consoleWarnings(); (len(got) > 0) != (want != "") || !strings.Contains(strings.Join(c.Warnings(), "\n"), want) {
			t.Errorf("%q: %q, want %q", environ, got, want)
		}
	}
}

func TestTheBlockOfTheProvider(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "postrider.yaml"), filepath.Join(dir, "secret")
	text := "console:\n  oidc:\n    issuer: https://login.example.com\n    client_id: me\n    client_secret_file: " + secret + "\n    scopes: [openid, groups]\n  group_scopes:\n    - sre=read+resolve\n    - team%2C1=admin\n"
	for path, content := range map[string]string{file: text, secret: "first\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(From{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if g := c.Console.Groups(); c.Console.OIDCIssuer != "https://login.example.com" || len(c.Console.OIDCScopes) != 2 || len(g["team,1"].Scopes) != 1 || len(g["sre"].Scopes) != 2 {
		t.Errorf("%s", c)
	}
	for _, now := range []string{"first", "second"} { // a new secret needs no restart
		if err := os.WriteFile(secret, []byte(now+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Console.ClientSecret(); err != nil || got != now {
			t.Errorf("the secret is %q, %v", got, err)
		}
	}
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Console.ClientSecret(); err == nil || !strings.Contains(err.Error(), "console.oidc_client_secret_file: the file "+secret) {
		t.Errorf("a secret that is gone: %v", err)
	}
}
