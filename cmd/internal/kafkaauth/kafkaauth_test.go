package kafkaauth

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// put writes a file in the way secrets are renewed: beside, and then in its place.
func put(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// ask makes a new client by the settings, and says whether a broker answers it.
func ask(t *testing.T, c config.Kafka) error {
	t.Helper()
	opts, err := Options(c, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return askWith(t, c, opts)
}

// askWith is ask with options that were made before, on connections of its own.
func askWith(t *testing.T, c config.Kafka, opts []kgo.Opt) error {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.Brokers...), kgo.DisableClientMetrics(), kgo.RetryTimeout(time.Second), kgo.RequestRetries(1))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	return client.Ping(ctx)
}

func wantRefused(t *testing.T, what string, err error, secrets ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: a broker answers", what)
		return
	}
	for _, s := range secrets {
		if strings.Contains(err.Error(), s) {
			t.Errorf("%s: the secret is in %v", what, err)
		}
	}
}

// A password that changes, at the brokers and in the file, is used by the next connection of the same options; a
// wrong one is refused and never shown.
func TestPasswordsAreReadAgain(t *testing.T) {
	t.Parallel()
	for mechanism, of := range map[string]struct {
		name string
		kind kadm.ScramMechanism
	}{"scram-sha-256": {"SCRAM-SHA-256", kadm.ScramSha256}, "scram-sha-512": {"SCRAM-SHA-512", kadm.ScramSha512}} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			broker := kafkatest.Kfake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "root"), kfake.User(of.name, "relay", "first-sentinel"))
			file := put(t, filepath.Join(t.TempDir(), "password"), []byte("first-sentinel\n"))
			c := config.Kafka{Brokers: broker.Addrs, SASLMechanism: mechanism, SASLUsername: "relay", SASLPasswordFile: file}
			opts, err := Options(c, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if err := askWith(t, c, opts); err != nil {
				t.Fatal(err)
			}
			admin := broker.As(kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism())).Admin(t)
			changed, err := admin.AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "relay", Mechanism: of.kind, Iterations: 4096, Password: "second"}})
			if err != nil || changed["relay"].Err != nil {
				t.Fatal(err, changed)
			}
			wantRefused(t, "the old password", askWith(t, c, opts), "first-sentinel")
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := askWith(t, c, opts); err == nil || !strings.Contains(err.Error(), "kafka.sasl_password_file: the file "+file+" cannot be read") {
				t.Errorf("without its file: %v", err)
			}
			put(t, file, []byte("second"))
			if err := askWith(t, c, opts); err != nil {
				t.Errorf("the new password: %v", err)
			}
			c.SASLPasswordFile, c.SASLPassword = "", "second"
			if err := ask(t, c); err != nil {
				t.Errorf("a password without a file: %v", err)
			}
		})
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "word"))
	c := config.Kafka{Brokers: broker.Addrs, SASLMechanism: "plain", SASLUsername: "root", SASLPassword: "word"}
	if err := ask(t, c); err != nil {
		t.Error(err)
	}
	c.SASLPassword = "wrong-sentinel"
	wantRefused(t, "a wrong password", ask(t, c), "wrong-sentinel")
}

// The token is read for each login.
func TestTokensAreReadAgain(t *testing.T) {
	t.Parallel()
	file := put(t, filepath.Join(t.TempDir(), "token"), []byte("one\n"))
	m, err := mechanism(config.Kafka{SASLMechanism: "oauthbearer", SASLTokenFile: file})
	if err != nil || m.Name() != "OAUTHBEARER" {
		t.Fatal(m, err)
	}
	for _, token := range []string{"one", "two"} {
		put(t, file, []byte(token))
		_, first, err := m.Authenticate(t.Context(), "broker")
		if err != nil || string(first) != "n,,\x01auth=Bearer "+token+"\x01\x01" { // RFC 7628, 3.1
			t.Errorf("%q, %v", first, err)
		}
	}
}

// Brokers are believed that the file's authorities signed for, under their own name; a renewed authority and a renewed
// certificate of the client count for the next connection.
func TestCertificatesAreReadAgain(t *testing.T) {
	t.Parallel()
	old, renewed, dir := kafkatest.NewAuthority(t), kafkatest.NewAuthority(t), t.TempDir()
	oldPair, newPair := old.Pair(t, "broker", time.Hour), renewed.Pair(t, "broker", time.Hour)
	pool := old.Pool()
	var server atomic.Pointer[tls.Config]
	of := func(pair tls.Certificate) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	}
	server.Store(of(oldPair))
	broker := kafkatest.Kfake(t, kfake.TLS(&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return server.Load(), nil }}))
	cert, key := old.Issue(t, "relay", time.Hour)
	c := config.Kafka{Brokers: broker.Addrs, TLSEnabled: true, TLSCAFile: put(t, filepath.Join(dir, "ca.pem"), old.PEM()),
		TLSCertFile: put(t, filepath.Join(dir, "cert.pem"), cert), TLSKeyFile: put(t, filepath.Join(dir, "key.pem"), key)}
	opts, err := Options(c, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := askWith(t, c, opts); err != nil {
		t.Fatal(err)
	}
	bare := c
	bare.TLSCertFile, bare.TLSKeyFile = "", ""
	wantRefused(t, "no certificate of the client", ask(t, bare))
	system := c
	system.TLSCAFile = ""
	wantRefused(t, "the authorities of the system", ask(t, system))

	pool = renewed.Pool()
	server.Store(of(newPair))
	wantRefused(t, "an authority that was renewed", askWith(t, c, opts))
	put(t, c.TLSCAFile, renewed.PEM())
	wantRefused(t, "a certificate of the old authority", askWith(t, c, opts))
	cert, key = renewed.Issue(t, "relay", time.Hour)
	put(t, c.TLSCertFile, cert)
	put(t, c.TLSKeyFile, key)
	if err := askWith(t, c, opts); err != nil {
		t.Errorf("all renewed: %v", err)
	}

	name := c
	name.Brokers = []string{strings.Replace(broker.Addrs[0], "127.0.0.1", "localhost", 1)}
	if err := ask(t, name); err == nil || !strings.Contains(err.Error(), "localhost") {
		t.Errorf("a certificate for another name: %v", err)
	}
	name.TLSInsecureSkipVerify = true
	if err := ask(t, name); err != nil {
		t.Errorf("without verifying: %v", err)
	}
	outdated := of(newPair)
	outdated.MaxVersion = tls.VersionTLS11
	server.Store(outdated)
	wantRefused(t, "TLS 1.1", ask(t, c))
}

// The error about a wrong file names the setting and the file, before anything is connected.
func TestWrongFiles(t *testing.T) {
	t.Parallel()
	dir, authority := t.TempDir(), kafkatest.NewAuthority(t)
	cert, key := authority.Issue(t, "relay", time.Hour)
	_, other := authority.Issue(t, "relay", time.Hour)
	file := func(name string, content []byte) string { return put(t, filepath.Join(dir, name), content) }
	certFile, keyFile, otherFile := file("cert", cert), file("key", key), file("other", other)
	text, empty, lines := file("text", []byte("sentinel")), file("empty", []byte("\n")), file("lines", []byte("sentinel\nsentinel"))
	cases := map[string]struct {
		c    config.Kafka
		want []string
	}{
		"authority is missing":   {config.Kafka{TLSEnabled: true, TLSCAFile: dir + "/none"}, []string{"kafka.tls_ca_file", dir + "/none", "no such file"}},
		"authority is a folder":  {config.Kafka{TLSEnabled: true, TLSCAFile: dir}, []string{"kafka.tls_ca_file", dir, "is a directory"}},
		"authority is no PEM":    {config.Kafka{TLSEnabled: true, TLSCAFile: text}, []string{"kafka.tls_ca_file", text, "no certificate in PEM"}},
		"certificate is no PEM":  {config.Kafka{TLSEnabled: true, TLSCertFile: text, TLSKeyFile: keyFile}, []string{"kafka.tls_cert_file " + text, "certificate input"}},
		"key is no PEM":          {config.Kafka{TLSEnabled: true, TLSCertFile: certFile, TLSKeyFile: text}, []string{"kafka.tls_key_file " + text, "key input"}},
		"key of another":         {config.Kafka{TLSEnabled: true, TLSCertFile: certFile, TLSKeyFile: otherFile}, []string{"kafka.tls_key_file " + otherFile, "does not match"}},
		"key is missing":         {config.Kafka{TLSEnabled: true, TLSCertFile: certFile, TLSKeyFile: dir + "/none"}, []string{"kafka.tls_key_file", "no such file"}},
		"password is missing":    {config.Kafka{SASLMechanism: "plain", SASLUsername: "u", SASLPasswordFile: dir + "/none"}, []string{"kafka.sasl_password_file", "no such file"}},
		"password is empty":      {config.Kafka{SASLMechanism: "plain", SASLUsername: "u", SASLPasswordFile: empty}, []string{"kafka.sasl_password_file", empty, "is empty"}},
		"password is more":       {config.Kafka{SASLMechanism: "plain", SASLUsername: "u", SASLPasswordFile: lines}, []string{"kafka.sasl_password_file", lines, "more than one line"}},
		"token is missing":       {config.Kafka{SASLMechanism: "oauthbearer", SASLTokenFile: dir + "/none"}, []string{"kafka.sasl_token_file", "no such file"}},
		"keys are missing":       {config.Kafka{SASLMechanism: "aws_msk_iam", SASLAWSCredentialsFile: dir + "/none"}, []string{"kafka.sasl_aws_credentials_file", dir + "/none", "no such file"}},
		"keys are a text":        {config.Kafka{SASLMechanism: "aws_msk_iam", SASLAWSCredentialsFile: lines}, []string{"kafka.sasl_aws_credentials_file", lines, "no profile [default]"}},
		"mechanism is not known": {config.Kafka{SASLMechanism: "gssapi"}, []string{"kafka.sasl_mechanism", "gssapi"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Options(c.c, time.Second)
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "sentinel") || strings.Contains(err.Error(), "PRIVATE") {
				t.Errorf("a secret is in %v", err)
			}
		})
	}
}
