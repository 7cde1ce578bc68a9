package kafkaauth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

// mskSettings are the settings for a broker, without keys.
func mskSettings(t *testing.T, authority *kafkatest.Authority, b *mskBroker) config.Kafka {
	t.Helper()
	return config.Kafka{Brokers: []string{b.addr.String()}, ClientID: "postrider", SASLMechanism: "aws_msk_iam",
		TLSEnabled: true, TLSCAFile: put(t, filepath.Join(t.TempDir(), "ca.pem"), authority.PEM())}
}

// shared is a shared credentials file with the keys in one profile and others in another.
func shared(k mskKeys) []byte {
	text := fmt.Sprintf("# of a test\n[other]\naws_access_key_id = AKIAOTHER\naws_secret_access_key = other\n\n[default]\naws_access_key_id = %s\naws_secret_access_key=%s\n", k.id, k.secret)
	if k.token != "" {
		text += "aws_session_token = " + k.token + "\n"
	}
	return []byte(text)
}

// Keys that change, at the broker and in the file, are used by the next connection of the same options, in both
// formats of the file; wrong ones are refused in words, and neither errors nor the log have a secret.
func TestMSKKeysAreReadAgain(t *testing.T) {
	onlyEnv(t, map[string]string{"AWS_REGION": "eu-west-1"})
	authority := kafkatest.NewAuthority(t)
	first, second := mskKeys{"AKIAFIRST", "first/sentinel+1", ""}, mskKeys{"ASIASECOND", "second/sentinel+2", "token/sentinel+3=="}
	b := newMSKBroker(t, authority, "eu-west-1", first)
	c := mskSettings(t, authority, b)
	c.SASLAWSCredentialsFile = put(t, filepath.Join(t.TempDir(), "credentials"), shared(first))
	opts, err := Options(c, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Buffer
	opts = append(opts, kgo.ClientID(c.ClientID), kgo.WithLogger(kgo.BasicLogger(&log, kgo.LogLevelDebug, nil)))
	logins := func(want int) {
		t.Helper()
		if n, why := b.seen(); n != want {
			t.Fatalf("%d logins were right, want %d; what was wrong: %v", n, want, why)
		}
	}
	var said []string
	refused := func(what string) {
		t.Helper()
		err := askWith(t, c, opts)
		if err == nil {
			t.Fatalf("%s: a broker answers", what)
		}
		said = append(said, err.Error())
	}
	if err := askWith(t, c, opts); err != nil {
		t.Fatal(err)
	}
	logins(1)

	b.rotate(second)
	refused("the keys of before")
	if !strings.Contains(said[0], "SASL_AUTHENTICATION_FAILED") || !strings.Contains(said[0], "Access denied") {
		t.Errorf("the refusal is %q", said[0])
	}
	if _, why := b.seen(); why == nil || !strings.Contains(why.Error(), "X-Amz-") {
		t.Errorf("the broker did not see other keys: %v", why)
	}
	put(t, c.SASLAWSCredentialsFile, shared(mskKeys{second.id, "wrong/sentinel+4", second.token}))
	refused("a wrong secret")
	if _, why := b.seen(); why == nil || why.Error() != "the signature is another" {
		t.Errorf("the broker did not look at the signature: %v", why)
	}
	put(t, c.SASLAWSCredentialsFile, shared(second))
	if err := askWith(t, c, opts); err != nil {
		t.Errorf("the new keys: %v", err)
	}
	logins(2)

	b.rotate(first)
	process := func(k mskKeys, ends time.Time) []byte {
		raw, err := json.Marshal(map[string]any{"Version": 1, "AccessKeyId": k.id, "SecretAccessKey": k.secret, "Expiration": ends.Format(time.RFC3339)})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	put(t, c.SASLAWSCredentialsFile, process(first, time.Now().Add(-time.Minute)))
	refused("keys that have ended")
	if !strings.Contains(said[2], "kafka.sasl_aws_credentials_file") || !strings.Contains(said[2], "were not renewed") {
		t.Errorf("the error is %q", said[2])
	}
	put(t, c.SASLAWSCredentialsFile, process(first, time.Now().Add(time.Hour)))
	if err := askWith(t, c, opts); err != nil {
		t.Errorf("the JSON of credential_process: %v", err)
	}
	logins(3)
	if err := os.Remove(c.SASLAWSCredentialsFile); err != nil {
		t.Fatal(err)
	}
	refused("no file")
	if !strings.Contains(said[3], "kafka.sasl_aws_credentials_file: the file "+c.SASLAWSCredentialsFile+" cannot be read") {
		t.Errorf("the error is %q", said[3])
	}
	logins(3)
	if !strings.Contains(log.String(), "AWS_MSK_IAM") {
		t.Error("the log says too little to prove anything")
	}
	if all := strings.Join(said, "\n") + log.String(); strings.Contains(all, "sentinel") {
		t.Errorf("a secret is in %s", all)
	}
}

// A broker lets a login last as long as the keys do. Then the client logs in again on the same connection, with the keys
// that are in the file by then.
func TestMSKLogsInAgain(t *testing.T) {
	onlyEnv(t, map[string]string{"AWS_REGION": "eu-west-1"})
	authority := kafkatest.NewAuthority(t)
	first, second := mskKeys{"ASIAFIRST", "first", "token"}, mskKeys{"ASIASECOND", "second", "another"}
	b := newMSKBroker(t, authority, "eu-west-1", first)
	b.lifetime = 1050 * time.Millisecond // the client takes a second off
	c := mskSettings(t, authority, b)
	c.SASLAWSCredentialsFile = put(t, filepath.Join(t.TempDir(), "credentials"), shared(first))
	opts, err := Options(c, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.Brokers...), kgo.ClientID(c.ClientID), kgo.DisableClientMetrics())...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	seed := client.SeedBrokers()[0]
	ask := func() {
		t.Helper()
		if _, err := seed.Request(t.Context(), kmsg.NewPtrMetadataRequest()); err != nil {
			_, why := b.seen()
			t.Fatalf("%v; the broker says: %v", err, why)
		}
	}
	ask()
	put(t, c.SASLAWSCredentialsFile, shared(second))
	b.rotate(second)
	for deadline := time.Now().Add(3 * time.Minute); ; ask() {
		if n, _ := b.seen(); n > 1 {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("the client does not log in again")
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.connections != 1 {
		t.Errorf("it did so by %d connections", b.connections)
	}
}

// Keys of the settings, of the environment and of a container's endpoint do as well; a broker with a certificate of
// another authority gets none of them.
func TestMSKKeysFromElsewhere(t *testing.T) {
	authority, keys := kafkatest.NewAuthority(t), mskKeys{"ASIAKEYS", "secret/sentinel+1", "token/sentinel+2=="}
	b := newMSKBroker(t, authority, "eu-central-1", keys)
	c := mskSettings(t, authority, b)
	logins := 0
	check := func(t *testing.T, c config.Kafka) {
		t.Helper()
		opts, err := Options(c, 3*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		logins++
		if err := askWith(t, c, append(opts, kgo.ClientID(c.ClientID))); err != nil {
			_, why := b.seen()
			t.Fatalf("%v; the broker says: %v", err, why)
		}
		if n, _ := b.seen(); n != logins {
			t.Errorf("%d logins, want %d", n, logins)
		}
	}
	t.Run("settings", func(t *testing.T) {
		onlyEnv(t, map[string]string{"AWS_DEFAULT_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKIAOTHER", "AWS_SECRET_ACCESS_KEY": "other"})
		c := c
		c.SASLAWSAccessKeyID, c.SASLAWSSecretAccessKey, c.SASLAWSSessionToken = keys.id, config.Secret(keys.secret), config.Secret(keys.token)
		check(t, c)
		c.TLSCAFile = put(t, filepath.Join(t.TempDir(), "ca.pem"), kafkatest.NewAuthority(t).PEM())
		wantRefused(t, "another authority", ask(t, c), "sentinel")
	})
	t.Run("environment", func(t *testing.T) {
		onlyEnv(t, map[string]string{"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": keys.id, "AWS_SECRET_ACCESS_KEY": keys.secret, "AWS_SESSION_TOKEN": keys.token})
		check(t, c)
	})
	t.Run("container", func(t *testing.T) {
		endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != "/v1/credentials" || r.Header.Get("Authorization") != "pod/sentinel+3" {
				http.Error(w, `{"code":"Denied"}`, http.StatusUnauthorized)
				return
			}
			_, _ = fmt.Fprintf(w, `{"AccessKeyId":%q,"SecretAccessKey":%q,"Token":%q,"AccountId":"1","Expiration":%q}`, keys.id, keys.secret, keys.token, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		}))
		t.Cleanup(endpoint.Close)
		token := put(t, filepath.Join(t.TempDir(), "token"), []byte("pod/sentinel+3"))
		onlyEnv(t, map[string]string{"AWS_REGION": "eu-central-1", "AWS_CONTAINER_CREDENTIALS_FULL_URI": endpoint.URL + "/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token})
		check(t, c)
		put(t, token, []byte("wrong/sentinel"))
		wantRefused(t, "a wrong token", ask(t, c), "sentinel")
		endpoint.Close()
		wantRefused(t, "no endpoint", ask(t, c), "sentinel")
	})
}

// The region is that of the broker's name, whatever the environment says.
func TestMSKRegionOfTheName(t *testing.T) {
	onlyEnv(t, nil)
	keys := mskKeys{"AKIAME", "secret", ""}
	for host, region := range map[string]string{
		"b-1.mine.abc123.c2.kafka.eu-west-3.amazonaws.com":             "eu-west-3",
		"boot-1a2b.c1.kafka-serverless.us-east-1.amazonaws.com":        "us-east-1",
		"b-2.mine.abc123.c2.kafka.cn-northwest-1.amazonaws.com.cn":     "cn-northwest-1",
		"b-1-public.mine.abc123.c2.kafka.ap-southeast-2.amazonaws.com": "ap-southeast-2",
	} {
		c := config.Kafka{Brokers: []string{host + ":9098"}, ClientID: "postrider", SASLMechanism: "aws_msk_iam", SASLAWSAccessKeyID: keys.id, SASLAWSSecretAccessKey: config.Secret(keys.secret)}
		m, err := mechanism(c)
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		session, payload, err := m.Authenticate(t.Context(), host+":9098")
		if err != nil || m.Name() != "AWS_MSK_IAM" {
			t.Errorf("%s: %s, %v", host, m.Name(), err)
			continue
		}
		if err := verify(payload, host, region, keys, time.Now()); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		if done, more, err := session.Challenge([]byte(`{"version":"2020_10_22"}`)); !done || len(more) > 0 || err != nil {
			t.Errorf("%s: after the broker's answer: %v %q %v", host, done, more, err)
		}
	}
}

// A missing setting is reported before anything is connected, with what to do.
func TestMSKMistakes(t *testing.T) {
	own := config.Kafka{Brokers: []string{"kafka.internal:9098"}, SASLMechanism: "aws_msk_iam", SASLAWSAccessKeyID: "AKIAME", SASLAWSSecretAccessKey: "sentinel"}
	none := own
	none.SASLAWSAccessKeyID, none.SASLAWSSecretAccessKey = "", ""
	blank := own
	blank.SASLAWSSecretAccessKey = "sentinel with blanks"
	for name, c := range map[string]struct {
		c       config.Kafka
		environ map[string]string
		want    []string
	}{
		"no region":     {own, nil, []string{"kafka.internal", "AWS_REGION"}},
		"a region":      {own, map[string]string{"AWS_REGION": "eu-west-1"}, nil},
		"another":       {own, map[string]string{"AWS_DEFAULT_REGION": "eu-west-1"}, nil},
		"half the keys": {none, map[string]string{"AWS_SECRET_ACCESS_KEY": "sentinel"}, []string{"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is set"}},
		"blanks":        {blank, map[string]string{"AWS_REGION": "eu-west-1"}, []string{"kafka.sasl_aws_access_key_id", "blanks"}},
	} {
		onlyEnv(t, c.environ)
		_, err := mskIAM(c.c)
		if (err != nil) != (len(c.want) > 0) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", name, want, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%s: a secret is in %v", name, err)
		}
	}
}
