package app

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/kafkaauth"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/outbox"
)

func putFile(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// The real Apache Kafka asks for a certificate and a login, by each mechanism: under SCRAM-SHA-512 an event goes to its topic, and one that does not
// fit comes back as an investigation. Then certificate, authority of the client and password are other ones, and
// clients that begin then use them.
func TestAppOnABrokerWithTLSAndALogin(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir, authority := t.TempDir(), kafkatest.NewAuthority(t)
	ca := putFile(t, filepath.Join(dir, "ca.pem"), authority.PEM())
	cert, key := authority.Issue(t, "broker", time.Hour)
	const secure = "listener.name.secure."
	own := kafkatest.Own(t, kafkajars.Options{Secure: "SASL_SSL",
		Config: map[string]string{
			secure + "ssl.keystore.type": "PEM", secure + "ssl.keystore.location": putFile(t, filepath.Join(dir, "broker.pem"), append(key, cert...)),
			secure + "ssl.truststore.type": "PEM", secure + "ssl.truststore.location": ca, secure + "ssl.client.auth": "required",
			secure + "sasl.enabled.mechanisms":        "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN,OAUTHBEARER",
			secure + "scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
			secure + "scram-sha-256.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
			secure + "plain.sasl.jaas.config":         `org.apache.kafka.common.security.plain.PlainLoginModule required user_relay="` + plainPassword + `";`,
			// Without a handler of its own the broker believes unsigned tokens, until they expire.
			secure + "oauthbearer.sasl.jaas.config": `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`,
		}})
	open := &kafkatest.Broker{Kind: kafkatest.KindJars, Version: own.Version(), Addrs: []string{own.Addr()}} // past TLS, for the test's own looks
	password := func(to string) {
		t.Helper()
		changed, err := open.Admin(t).AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: "relay", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: to}})
		if err != nil || changed["relay"].Err != nil {
			t.Fatal(err, changed)
		}
	}
	first, second := rand.Text(), rand.Text()
	password(first)
	open.CreateTopic(t, "orders", 1, nil)
	open.CreateTopic(t, "postrider.dlq", 1, nil)

	db := pgtest.New(t)
	c := settings(t, db.URL, own.SecureAddr())
	cert, key = authority.Issue(t, "relay", time.Hour)
	c.Kafka.TLSEnabled, c.Kafka.TLSCAFile = true, ca
	c.Kafka.TLSCertFile, c.Kafka.TLSKeyFile = putFile(t, filepath.Join(dir, "cert.pem"), cert), putFile(t, filepath.Join(dir, "key.pem"), key)
	c.Kafka.SASLMechanism, c.Kafka.SASLUsername = "scram-sha-512", "relay"
	c.Kafka.SASLPasswordFile = putFile(t, filepath.Join(dir, "password"), []byte(first+"\n"))
	otherLogins(t, c.Kafka, open)
	var log logtest.Buffer
	logger, err := obs.NewLogger(&log, "debug", "json")
	if err != nil {
		t.Fatal(err)
	}
	a := run(t, Options{Config: c, Logger: logger})
	waitReady(t, a)
	conn := db.Conn(t)
	enqueue(t, conn, outbox.Message{Topic: "orders", Key: []byte("k"), Payload: []byte("hello")}, tooLarge)
	if got := open.ReadAll(t, "orders", 1); string(got[0].Value) != "hello" {
		t.Errorf("got %q", got[0].Value)
	}
	waitRow(t, conn, "the letter came back", `select count(*) = 1 from postrider.dlq_entry where topic = 'orders'`)

	// The broker is another one now to all clients: every connection is made anew, with the new password only.
	password(second)
	if err := own.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := own.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old password is refused", func() (bool, string) {
		_, body := readyz(t, a)
		return strings.Contains(log.String(), "SASL_AUTHENTICATION_FAILED"), body
	})
	enqueue(t, conn, outbox.Message{Topic: "orders", Key: []byte("k"), Payload: []byte("later")}, tooLarge)
	putFile(t, c.Kafka.SASLPasswordFile, []byte(second))
	cert, key = authority.Issue(t, "relay renewed", time.Hour)
	putFile(t, c.Kafka.TLSCertFile, cert)
	putFile(t, c.Kafka.TLSKeyFile, key)
	waitReady(t, a)
	if got := open.ReadAll(t, "orders", 2); string(got[1].Value) != "later" {
		t.Errorf("got %q", got[1].Value)
	}
	patiently(t, "the second letter came back", func() (bool, string) {
		var n int
		if err := conn.QueryRow(t.Context(), `select count(*) from postrider.dlq_entry where topic = 'orders'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 2, fmt.Sprint(n)
	})
	for _, secret := range []string{first, second} {
		if strings.Contains(log.String(), secret) {
			t.Error("a password is in the log")
		}
	}
}

// plainPassword is what the broker's own settings say for PLAIN.
const plainPassword = "plain-and-simple"

// otherLogins looks at the other mechanisms on the same broker: each lets a client in that has the secret and then writes
// a record, and no other client. A token is a file that is renewed from outside.
func otherLogins(t *testing.T, c config.Kafka, open *kafkatest.Broker) {
	t.Helper()
	scram := rand.Text()
	changed, err := open.Admin(t).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "relay", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: scram}})
	if err != nil || changed["relay"].Err != nil {
		t.Fatal(err, changed)
	}
	open.CreateTopic(t, "logins", 1, nil)
	token := func(expires time.Duration) string {
		now := time.Now()
		claims := fmt.Sprintf(`{"sub":"relay","iat":%d,"exp":%d}`, now.Add(-time.Hour).Unix(), now.Add(expires).Unix())
		return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "."
	}
	file := filepath.Join(t.TempDir(), "secret")
	use := func(mechanism, secret string) error {
		t.Helper()
		putFile(t, file, []byte(secret+"\n"))
		c.SASLMechanism, c.SASLPasswordFile, c.SASLTokenFile = mechanism, file, ""
		if mechanism == "oauthbearer" {
			c.SASLUsername, c.SASLPasswordFile, c.SASLTokenFile = "", "", file
		}
		opts, err := kafkaauth.Options(c, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.Brokers...), kgo.RetryTimeout(time.Second), kgo.RequestRetries(1))...)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		if err := client.Ping(ctx); err != nil {
			return err
		}
		return client.ProduceSync(ctx, &kgo.Record{Topic: "logins", Value: []byte(mechanism)}).FirstErr()
	}
	written := []string{}
	for _, login := range []struct{ mechanism, right, wrong string }{
		{"plain", plainPassword, "plain-and-wrong"}, {"scram-sha-256", scram, rand.Text()}, {"oauthbearer", token(time.Hour), token(-time.Minute)},
	} {
		if err := use(login.mechanism, login.wrong); err == nil || strings.Contains(err.Error(), login.wrong) {
			t.Errorf("%s, with a wrong secret: %v", login.mechanism, err)
		}
		if err := use(login.mechanism, login.right); err != nil {
			t.Errorf("%s: %v", login.mechanism, err)
			continue
		}
		written = append(written, login.mechanism)
	}
	for i, r := range open.ReadAll(t, "logins", len(written)) {
		if string(r.Value) != written[i] {
			t.Errorf("record %d is of %s, want %s", i, r.Value, written[i])
		}
	}
}

// The password of the database changes while the app runs: the file's new content counts for the next connection, for all
// pools and the connection that listens.
func TestDatabasePasswordFromAFile(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.New(t), kafkatest.Kfake(t)
	conn, address, first := asRelay(t, db, broker)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	user := u.User.Username()
	u.User = url.UserPassword(user, "of-the-url-and-wrong")
	c := settings(t, u.String(), broker.Addrs...)
	c.Database.PasswordFile = filepath.Join(t.TempDir(), "password")
	if _, err := New(t.Context(), Options{Config: c}); err == nil || !strings.Contains(err.Error(), "password_file: the file "+c.Database.PasswordFile+" cannot be read") {
		t.Errorf("without the file: %v", err)
	}
	putFile(t, c.Database.PasswordFile, []byte("wrong-sentinel"))
	if _, err := New(t.Context(), Options{Config: c}); err == nil || !strings.Contains(err.Error(), "the password in database.password_file") || strings.Contains(err.Error(), "sentinel") {
		t.Errorf("with a wrong password: %v", err)
	}
	putFile(t, c.Database.PasswordFile, []byte(first+"\n"))
	a := run(t, Options{Config: c})
	waitReady(t, a)
	listens := `select count(*) = 1 from pg_stat_activity where usename = '` + user + `' and application_name like '% notifier'`
	waitRow(t, conn, "the notifier listens", listens)

	second := rand.Text()
	if _, err := conn.Exec(t.Context(), fmt.Sprintf(`alter role %s password '%s'`, user, second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where usename = $1`, user); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old password is refused", func() (bool, string) {
		status, body := readyz(t, a)
		return status == http.StatusServiceUnavailable, body
	})
	putFile(t, c.Database.PasswordFile, []byte(second))
	waitReady(t, a)
	enqueue(t, conn, outbox.Message{Topic: "orders", Payload: []byte("hello")}, tooLarge)
	broker.ReadAll(t, "orders", 1)
	waitRow(t, conn, "an investigation", `select count(*) = 1 from postrider.dlq_entry`)
	waitRow(t, conn, "the notifier listens again", listens)
	one, err := Connect(t.Context(), config.Database{URL: c.Database.URL, PasswordFile: c.Database.PasswordFile})
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
