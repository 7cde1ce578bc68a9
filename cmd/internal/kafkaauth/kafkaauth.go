// Package kafkaauth makes the options for TLS and logins that every Kafka client of the binary has. Files are read again
// for each connection, so a new certificate, password or token is used without a restart: open connections stay, and the
// next one uses the content of the files at that time.
package kafkaauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/postrider/postrider/cmd/internal/config"
)

// DialTimeout bounds a connection and its TLS handshake for processes that work on for long; it is the client's own
// default.
const DialTimeout = 10 * time.Second

// Options returns the options for a client, none where the settings ask for neither TLS nor a login. timeout bounds each
// connection with its TLS handshake. All files are read once to see that they are right; the error names the setting, the
// file and the mistake, and never a secret.
func Options(c config.Kafka, timeout time.Duration) ([]kgo.Opt, error) {
	var opts []kgo.Opt
	if c.TLSEnabled {
		if _, err := tlsConfig(c); err != nil {
			return nil, err
		}
		opts = append(opts, kgo.Dialer(dialer(c, timeout)))
	}
	m, err := mechanism(c)
	if err != nil {
		return nil, err
	}
	if m != nil {
		if _, err := secret(c); err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(m))
	}
	return slices.Clip(opts), nil // who appends gets a copy
}

// dialer returns what connects to a broker and shakes hands with it, by the files as they are then.
func dialer(c config.Kafka, timeout time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		settings, err := tlsConfig(c)
		if err != nil {
			return nil, err
		}
		// The dialer takes the name to verify from the address.
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: timeout}, Config: settings}
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("connect to the broker %s through TLS: %w", address, err)
		}
		return conn, nil
	}
}

// tlsConfig reads the files.
func tlsConfig(c config.Kafka) (*tls.Config, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.TLSInsecureSkipVerify}
	if c.TLSCAFile != "" {
		raw, err := config.ReadFile("kafka.tls_ca_file", c.TLSCAFile)
		if err != nil {
			return nil, err
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("kafka.tls_ca_file: the file %s has no certificate in PEM (-----BEGIN CERTIFICATE-----)", c.TLSCAFile)
		}
	}
	if c.TLSCertFile == "" && c.TLSKeyFile == "" {
		return settings, nil
	}
	cert, err := config.ReadFile("kafka.tls_cert_file", c.TLSCertFile)
	if err != nil {
		return nil, err
	}
	key, err := config.ReadFile("kafka.tls_key_file", c.TLSKeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil { // these say which of the two is wrong, and quote neither
		return nil, fmt.Errorf("kafka.tls_cert_file %s and kafka.tls_key_file %s are no certificate with its unencrypted private key in PEM: %w", c.TLSCertFile, c.TLSKeyFile, err)
	}
	settings.Certificates = []tls.Certificate{pair}
	return settings, nil
}

// mechanism is nil where there is no login. That of MSK has looked at its files.
func mechanism(c config.Kafka) (sasl.Mechanism, error) {
	ofScram := func(context.Context) (scram.Auth, error) {
		password, err := secret(c)
		return scram.Auth{User: c.SASLUsername, Pass: password}, err
	}
	switch c.SASLMechanism {
	case "", "none":
		return nil, nil
	case "plain":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			password, err := secret(c)
			return plain.Auth{User: c.SASLUsername, Pass: password}, err
		}), nil
	case "scram-sha-256":
		return scram.Sha256(ofScram), nil
	case "scram-sha-512":
		return scram.Sha512(ofScram), nil
	case "aws_msk_iam":
		return mskIAM(c)
	case "oauthbearer":
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := secret(c)
			return oauth.Auth{Token: token}, err
		}), nil
	}
	return nil, fmt.Errorf("kafka.sasl_mechanism is %q; it must be none, plain, scram-sha-256, scram-sha-512, oauthbearer or aws_msk_iam", c.SASLMechanism)
}

// secret reads what the mechanism proves itself with.
func secret(c config.Kafka) (string, error) {
	switch {
	case c.SASLMechanism == "oauthbearer":
		return config.ReadSecretFile("kafka.sasl_token_file", c.SASLTokenFile)
	case c.SASLPasswordFile != "":
		return config.ReadSecretFile("kafka.sasl_password_file", c.SASLPasswordFile)
	}
	return c.SASLPassword.Reveal(), nil
}
