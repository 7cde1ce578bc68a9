package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestTLSAndLoginFitTogether(t *testing.T) {
	t.Parallel()
	const scram = "KAFKA_SASL_MECHANISM=SCRAM-SHA-512"
	const id, secret, token = "KAFKA_SASL_AWS_ACCESS_KEY_ID=AKIAME", "KAFKA_SASL_AWS_SECRET_ACCESS_KEY=sentinel", "KAFKA_SASL_AWS_SESSION_TOKEN=sentinel"
	msk := func(more ...string) []string {
		return append([]string{"KAFKA_TLS_ENABLED=1", "KAFKA_SASL_MECHANISM=AWS_MSK_IAM"}, more...)
	}
	cases := map[string]struct {
		environ []string
		want    []string // none is right
	}{
		"neither":           {},
		"tls":               {environ: []string{"KAFKA_TLS_ENABLED=true"}},
		"mtls":              {environ: []string{"KAFKA_TLS_ENABLED=true", "KAFKA_TLS_CA_FILE=ca", "KAFKA_TLS_CERT_FILE=c", "KAFKA_TLS_KEY_FILE=k"}},
		"scram in capitals": {environ: []string{scram, "KAFKA_SASL_USERNAME=u", "KAFKA_SASL_PASSWORD=sentinel"}},
		"oauthbearer":       {environ: []string{"KAFKA_SASL_MECHANISM=OAUTHBEARER", "KAFKA_SASL_TOKEN_FILE=t"}},
		"msk by itself":     {environ: msk()},
		"msk with keys":     {environ: msk(id, secret)},
		"msk with a token":  {environ: msk(id, secret, token)},
		"msk with a file":   {environ: msk("KAFKA_SASL_AWS_CREDENTIALS_FILE=f")},
		"msk without tls": {environ: []string{"KAFKA_SASL_MECHANISM=AWS_MSK_IAM"},
			want: []string{"kafka.sasl_mechanism is aws_msk_iam (environment variable KAFKA_SASL_MECHANISM), and kafka.tls_enabled is false (default)", "through TLS alone"}},
		"msk with half":           {environ: msk(id), want: []string{"kafka.sasl_aws_access_key_id is given", "without kafka.sasl_aws_secret_access_key"}},
		"msk with the other half": {environ: msk(secret), want: []string{"kafka.sasl_aws_secret_access_key is given", "without kafka.sasl_aws_access_key_id"}},
		"msk with a token alone":  {environ: msk(token), want: []string{"kafka.sasl_aws_session_token is given", "without the keys that it goes with"}},
		"msk with file and keys": {environ: msk("KAFKA_SASL_AWS_CREDENTIALS_FILE=f", id, secret),
			want: []string{"kafka.sasl_aws_credentials_file (environment variable KAFKA_SASL_AWS_CREDENTIALS_FILE) and kafka.sasl_aws_access_key_id", "and kafka.sasl_aws_secret_access_key"}},
		"msk with a password":   {environ: msk("KAFKA_SASL_PASSWORD=sentinel"), want: []string{"kafka.sasl_password is given", "not used: kafka.sasl_mechanism is aws_msk_iam"}},
		"keys of AWS for scram": {environ: []string{scram, "KAFKA_SASL_USERNAME=u", "KAFKA_SASL_PASSWORD=sentinel", id, secret}, want: []string{"kafka.sasl_aws_access_key_id is given", "kafka.sasl_aws_secret_access_key is given", "not used"}},
		"files without tls": {environ: []string{"KAFKA_TLS_CA_FILE=ca", "KAFKA_TLS_KEY_FILE=k"},
			want: []string{"kafka.tls_ca_file is given (environment variable KAFKA_TLS_CA_FILE) and kafka.tls_enabled is false (default)", "kafka.tls_key_file is given"}},
		"no verifying without tls": {environ: []string{"KAFKA_TLS_INSECURE_SKIP_VERIFY=1"}, want: []string{"kafka.tls_insecure_skip_verify is true", "nothing to verify"}},
		"certificate alone":        {environ: []string{"KAFKA_TLS_ENABLED=1", "KAFKA_TLS_CERT_FILE=c"}, want: []string{"kafka.tls_cert_file is given", "without kafka.tls_key_file"}},
		"key alone":                {environ: []string{"KAFKA_TLS_ENABLED=1", "KAFKA_TLS_KEY_FILE=k"}, want: []string{"kafka.tls_key_file is given", "without kafka.tls_cert_file"}},
		"unknown mechanism":        {environ: []string{"KAFKA_SASL_MECHANISM=gssapi"}, want: []string{`kafka.sasl_mechanism from environment variable KAFKA_SASL_MECHANISM is "gssapi": it must be one of none, plain`}},
		"no username":              {environ: []string{scram, "KAFKA_SASL_PASSWORD=sentinel"}, want: []string{"kafka.sasl_mechanism is scram-sha-512 (environment variable KAFKA_SASL_MECHANISM), and kafka.sasl_username is not set"}},
		"no password":              {environ: []string{scram, "KAFKA_SASL_USERNAME=u"}, want: []string{"kafka.sasl_password_file or kafka.sasl_password is not set"}},
		"two passwords":            {environ: []string{scram, "KAFKA_SASL_USERNAME=u", "KAFKA_SASL_PASSWORD=sentinel", "KAFKA_SASL_PASSWORD_FILE=f"}, want: []string{"are both set; give one"}},
		"no token":                 {environ: []string{"KAFKA_SASL_MECHANISM=oauthbearer"}, want: []string{"kafka.sasl_token_file is not set"}},
		"password without login":   {environ: []string{"KAFKA_SASL_PASSWORD=sentinel"}, want: []string{"kafka.sasl_password is given (environment variable KAFKA_SASL_PASSWORD) and not used: kafka.sasl_mechanism is none (default)"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Load(From{Environ: c.environ})
			if (err != nil) != (len(c.want) > 0) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			shown := fmt.Sprintf("%v %+v %#v %v %v", got, got, got, got.Settings(), got.Warnings())
			if err != nil {
				shown += err.Error()
			}
			for _, want := range c.want {
				if !strings.Contains(shown, want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
			if strings.Contains(shown, "sentinel") {
				t.Errorf("the password is in %s", shown)
			}
		})
	}
}

// The file may have blocks; a key may not be there twice in two ways.
func TestKafkaBlocks(t *testing.T) {
	t.Parallel()
	c, err := Load(From{File: write(t, `kafka:
  tls:
    enabled: true
    insecure_skip_verify: true
  sasl:
    mechanism: plain
    username: me
    password: 4711
`)})
	if err != nil {
		t.Fatal(err)
	}
	if k := c.Kafka; !k.TLSEnabled || k.SASLMechanism != "plain" || k.SASLUsername != "me" || k.SASLPassword.Reveal() != "4711" {
		t.Errorf("read %#v", k)
	}
	if w := strings.Join(c.Warnings(), "\n"); !strings.Contains(w, "ANY CERTIFICATE IS TAKEN") {
		t.Errorf("warnings: %s", w)
	}
	_, err = Load(From{File: write(t, "kafka:\n  tls_enabled: true\n  tls: {enabled: true, ca: x}\n")})
	for _, want := range []string{"kafka.tls_enabled is set twice", "unknown key ca; the block kafka.tls has enabled, ca_file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	open, err := Load(From{Environ: []string{"KAFKA_SASL_MECHANISM=plain", "KAFKA_SASL_USERNAME=u", "KAFKA_SASL_PASSWORD=p"}})
	if err != nil || !strings.Contains(strings.Join(open.Warnings(), "\n"), "readable for everybody") {
		t.Errorf("%v, warnings %v", err, open.Warnings())
	}
}
