package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outbox"
)

// Whatever happens, from the start through refused connections, brokers that go and keys that do not work, no secret
// is in the log, however much it is to say, nor in errors, metrics and answers.
func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	var secret []string
	for _, k := range config.Keys() {
		if k.Secret() {
			secret = append(secret, k.String())
		}
	}
	if fmt.Sprint(secret) != "[database.url kafka.sasl_password kafka.sasl_aws_secret_access_key kafka.sasl_aws_session_token console.oidc_client_secret tracing.headers]" {
		t.Fatalf("the secret settings are %v: give each a value here that is looked for below", secret)
	}
	const login, collector, aws, client = "sentinel-of-the-login", "sentinel-of-the-collector", "sentinel-of-aws", "sentinel-of-the-client"
	db := pgtest.New(t)
	cluster := kafkatest.Kfake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "postrider", login))
	broker := cluster.As(kgo.SASL(plain.Auth{User: "postrider", Pass: login}.AsMechanism()))
	conn, address, password := asRelay(t, db, broker)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Buffer
	logger, err := obs.NewLogger(&log, "debug", "json")
	if err != nil {
		t.Fatal(err)
	}
	c := settings(t, address, broker.Addrs...)
	c.Outbox.Log = true
	c.Kafka.SASLMechanism, c.Kafka.SASLUsername, c.Kafka.SASLPassword = "plain", "postrider", login
	c.Kafka.SASLAWSAccessKeyID, c.Kafka.SASLAWSSecretAccessKey, c.Kafka.SASLAWSSessionToken = "AKIAME", aws, aws // kafkaauth logs in with keys like these
	var exported logtest.Buffer
	spans := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&exported, r.Body)
		http.Error(w, "refused: "+r.Header.Get("X-Key"), http.StatusForbidden)
	}))
	t.Cleanup(spans.Close)
	c.Tracing = config.Tracing{Enabled: true, Endpoint: spans.URL, Headers: "x-key=" + collector, SamplePercent: 100, Database: true, KafkaClient: true}
	c.Console.OIDCIssuer, c.Console.OIDCClientID, c.Console.OIDCClientSecret = refusingProvider(t), "me", client
	c.Console.GroupScopes = []string{"sre=read"}
	a := run(t, Options{Config: c, Logger: logger})
	waitReady(t, a)
	_, token, err := a.Services().Access.Create(access.WithActor(t.Context(), access.Actor{Name: "test"}), access.NewKey{Name: "k", Scopes: []access.Scope{access.Admin}})
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	ask := func(path, bearer string, want int) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+bearer)
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	shown["page of signing in"] = failedSignIn(t, a)
	ask("/api/v1/dlq", token, http.StatusOK)
	ask("/api/v1/dlq?page=0&key="+token, token, http.StatusBadRequest)
	ask("/api/v1/dlq", token+"x", http.StatusUnauthorized)
	enqueue(t, conn, outbox.Message{Topic: "orders", Payload: []byte("hello")}, tooLarge)
	waitRow(t, conn, "an investigation", `select count(*) = 1 from postrider.dlq_entry`)

	// The password is changed, and every connection ends.
	change := func(to string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), fmt.Sprintf(`alter role %s password '%s'`, u.User.Username(), to)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, u.User.Username()); err != nil {
			t.Fatal(err)
		}
	}
	change("another")
	eventually(t, "readiness fails", func() (bool, string) {
		status, body := readyz(t, a)
		shown["readyz"] += body
		return status == http.StatusServiceUnavailable, body
	})
	eventually(t, "the log says why", func() (bool, string) {
		return strings.Contains(log.String(), "password authentication failed"), ""
	})
	_, err = New(t.Context(), Options{Config: c, Logger: logger})
	if err == nil {
		t.Fatal("a wrong password is accepted")
	}
	shown["error"] = err.Error()
	change(password)
	waitReady(t, a)
	wrong := c
	wrong.Kafka.SASLPassword += "-wrong"
	publisher := run(t, Options{Config: wrong, Logger: logger, Roles: []Role{HTTP}})
	eventually(t, "the brokers refuse a wrong password", func() (bool, string) {
		status, body := readyz(t, publisher)
		shown["readyz"] += body
		return status == http.StatusServiceUnavailable && strings.Contains(body, "kafka"), body
	})
	broker.Cluster.Close()
	enqueue(t, conn, outbox.Message{Topic: "orders", Payload: []byte("stays")})
	eventually(t, "the brokers are away", func() (bool, string) {
		_, metrics := get(t, a, "/metrics")
		shown["metrics"] = metrics
		return strings.Contains(metrics, "postrider_outbox_brokers_away 1"), ""
	})
	if err := a.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if shown["spans"] = exported.String(); !strings.Contains(shown["spans"], "log_receipt") {
		t.Error("no spans of statements were exported")
	}
	shown["log"], shown["settings"] = log.String(), fmt.Sprintf("%v %+v %#v %v", c, c, c, c.Settings())
	for _, must := range []string{`"level":"DEBUG"`, `"action":"publish"`, "starting", "spans were not exported", "xxxxx"} {
		if !strings.Contains(shown["log"], must) {
			t.Errorf("the log says too little to prove anything: %s is not in it", must)
		}
	}
	for where, text := range shown {
		for what, sentinel := range map[string]string{"password": password, "login at the brokers": login, "secret or token of AWS": aws, "key of the collector": collector, "secret of the OpenID client": client, "API key": token, "end of the API key": token[len(token)-12:]} {
			if strings.Contains(text, sentinel) {
				t.Errorf("the %s is in the %s", what, where)
			}
		}
	}
}

// refusingProvider is an OpenID provider that takes no code, and repeats all that it was sent.
func refusingProvider(t *testing.T) (issuer string) {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"issuer": %[1]q, "authorization_endpoint": "%[1]s/auth", "token_endpoint": "%[1]s/token", "jwks_uri": "%[1]s/keys", "token_endpoint_auth_methods_supported": ["client_secret_post"]}`, server.URL)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		sent, _ := io.ReadAll(r.Body)
		http.Error(w, "this does not fit: "+string(sent), http.StatusBadRequest)
	})
	return server.URL
}

// failedSignIn goes to the provider and back, and returns the page that says why the sign-in failed.
func failedSignIn(t *testing.T, a *App) (page string) {
	t.Helper()
	ask := func(path string, cookies []*http.Cookie) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cookies {
			request.AddCookie(c)
		}
		response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	begun := ask("/login/oidc", nil)
	to, err := begun.Location()
	if err != nil {
		t.Fatal(err, begun.Status)
	}
	text, err := io.ReadAll(ask("/login/oidc/back?code=c1&state="+to.Query().Get("state"), begun.Cookies()).Body)
	if err != nil || !strings.Contains(string(text), "did not take the code") {
		t.Fatalf("%s, %v", text, err)
	}
	return string(text) + to.String()
}
