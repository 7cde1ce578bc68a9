package cli

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// Commands connect to brokers with TLS and a login as serve does, and read the files before that.
func TestCommandsWithTLSAndALogin(t *testing.T) {
	t.Parallel()
	const password = "s3ntinel"
	authority, dir := kafkatest.NewAuthority(t), t.TempDir()
	broker := kafkatest.Kfake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "me", password),
		kfake.TLS(&tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "broker", time.Hour)}})).
		As(kgo.DialTLSConfig(&tls.Config{RootCAs: authority.Pool()}), kgo.SASL(plain.Auth{User: "me", Pass: password}.AsMechanism()))
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, right := file("ca.pem", string(authority.PEM())), file("right", password+"\n")
	db := pgtest.New(t)
	run := func(code int, environ []string, args ...string) result {
		t.Helper()
		r := postrider(t, append([]string{"DATABASE_URL=" + db.URL, "KAFKA_BROKERS=" + strings.Join(broker.Addrs, ",")}, environ...), args...)
		if r.code != code {
			t.Errorf("%v: exit code %d, want %d:\n%s%s", args, r.code, code, r.stdout, r.stderr)
		}
		if strings.Contains(r.stdout+r.stderr, password) {
			t.Errorf("%v: the password is in %s%s", args, r.stdout, r.stderr)
		}
		return r
	}
	secure := []string{"KAFKA_TLS_ENABLED=true", "KAFKA_TLS_CA_FILE=" + ca}
	login := []string{"KAFKA_SASL_MECHANISM=PLAIN", "KAFKA_SASL_USERNAME=me"}
	both := append(append([]string{"KAFKA_SASL_PASSWORD_FILE=" + right}, secure...), login...)

	letters := &replays{T: t, broker: broker, from: broker.Topic(t, 1, nil), to: broker.Topic(t, 1, nil)}
	empty := broker.Topic(t, 1, nil)
	letters.letter(0, "0", letters.to)
	run(ExitOK, both, "doctor", "--dlq-topic", empty, "--tasks-lifecycle-topic", letters.to)
	run(ExitOK, both, "replay", "--from", letters.from, "--yes")
	broker.ReadAll(t, letters.to, 1)

	r := run(ExitOK, append([]string{"KAFKA_SASL_PASSWORD=" + password, "KAFKA_TLS_ENABLED=true", "KAFKA_TLS_INSECURE_SKIP_VERIFY=true"}, login...),
		"doctor", "--dlq-topic", empty, "--tasks-lifecycle-topic", letters.to)
	contains(t, r.stderr, "Warning: kafka.tls_insecure_skip_verify is true (environment variable KAFKA_TLS_INSECURE_SKIP_VERIFY): ANY CERTIFICATE")

	run(ExitOK, append([]string{"DATABASE_PASSWORD_FILE=" + right}, both...), "config", "validate")
	r = run(ExitUsage, []string{"DATABASE_PASSWORD_FILE=" + dir + "/none", "KAFKA_TLS_ENABLED=1", "KAFKA_TLS_CA_FILE=" + right, "TRACING_ENABLED=1", "TRACING_HEADERS_FILE=" + right,
		"CONSOLE_OIDC_ISSUER=https://login.example.com", "CONSOLE_OIDC_CLIENT_ID=me", "CONSOLE_GROUP_SCOPES=sre=read", "CONSOLE_OIDC_CLIENT_SECRET_FILE=" + dir + "/gone"}, "config", "validate")
	contains(t, r.stderr, "password_file: the file "+dir+"/none cannot be read: no such file", "kafka.tls_ca_file: the file "+right+" has no certificate in PEM",
		"tracing.headers_file: the file "+right+" is not name=value", "console.oidc_client_secret_file: the file "+dir+"/gone cannot be read")
	r = run(ExitOK, append([]string{"KAFKA_SASL_PASSWORD=" + password}, login...), "config", "show")
	contains(t, r.stdout, "kafka.sasl_password ", "xxxxx")
}
