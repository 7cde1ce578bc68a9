package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/config"
)

func TestProvider(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	document := map[string]any{}
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/.well-known/openid-configuration" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(document)
	}))
	t.Cleanup(server.Close)
	examine := func(change func(*config.Config)) result {
		t.Helper()
		settings := config.Config{HTTP: config.HTTP{API: true}, Console: config.Console{Enabled: true, URL: "https://postrider.example.com", OIDCIssuer: server.URL, OIDCClientID: "me", OIDCClientSecret: "sentinel"}}
		change(&settings)
		found, err := checkProvider(context.Background(), &patient{Config: Config{Settings: settings}})
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		return found[0]
	}
	want := func(name string, got result, verdict Verdict, says ...string) {
		t.Helper()
		for _, s := range says {
			if got.verdict != verdict || !strings.Contains(got.says, s) || strings.Contains(got.says+got.hint, "sentinel") || verdict != OK && got.hint == "" {
				t.Errorf("%s: %+v", name, got)
			}
		}
	}
	as := func(*config.Config) {}
	document = map[string]any{"issuer": server.URL, "authorization_endpoint": server.URL + "/auth", "token_endpoint": server.URL + "/token", "jwks_uri": server.URL + "/keys", "code_challenge_methods_supported": []string{"S256"}}
	want("well", examine(as), OK, server.URL, `"me"`, "https://postrider.example.com/login/oidc/back")
	want("none", examine(func(c *config.Config) { c.Console.OIDCIssuer = "" }), OK, "there is none")
	want("not served", examine(func(c *config.Config) { c.Console.Enabled = false }), OK, "not served")
	want("no file", examine(func(c *config.Config) { c.Console.OIDCClientSecretFile = filepath.Join(t.TempDir(), "none") }), Failed, "console.oidc_client_secret_file")
	delete(document, "code_challenge_methods_supported")
	want("no PKCE", examine(as), Warning, "S256")
	document["issuer"] = server.URL + "/"
	want("another issuer", examine(as), Failed, "its issuer is", "console.oidc_issuer")
	server.Close()
	want("away", examine(as), Failed, server.URL+"/.well-known/openid-configuration")
}
