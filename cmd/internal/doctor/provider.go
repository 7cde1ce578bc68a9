package doctor

import (
	"context"
	"strings"

	"github.com/postrider/postrider/cmd/internal/oidclogin"
)

// checkProvider reads the discovery document of the OpenID provider. Only a sign-in shows whether the provider knows the
// client and its password.
func checkProvider(_ context.Context, p *patient) ([]result, error) {
	c := p.Settings.Console
	provider := oidclogin.Of(c)
	switch {
	case !c.Enabled || !p.Settings.HTTP.API:
		return well("the web console is not served"), nil
	case provider == nil:
		return well("there is none (console.oidc_issuer): people sign in with API keys, links or by a proxy"), nil
	}
	if _, err := c.ClientSecret(); err != nil {
		return fail("put the password of the client "+c.OIDCClientID+" into the file", "no sign-in at the provider works: %v", err), nil
	}
	warnings, err := provider.Look()
	if err != nil {
		return fail("see that console.oidc_issuer is written as the provider writes it, and that this machine reaches it; its certificate must be from an authority of the system, or of SSL_CERT_FILE. API keys and links sign people in meanwhile",
			"no sign-in at the provider works: %v", err), nil
	}
	if len(warnings) > 0 {
		return warn("ask the people who run it for PKCE with S256", "%s: %s", c.OIDCIssuer, strings.Join(warnings, "; ")), nil
	}
	back := c.URL
	if back == "" {
		back = "http://localhost and the port of http.address"
	}
	return well("%s answers; it must send the client %q back to %s/login/oidc/back", c.OIDCIssuer, c.OIDCClientID, back), nil
}
