package config

import (
	"fmt"
	"strings"
)

// given reports whether a text is given.
func (c *Config) given(name string) (Key, bool) {
	k, _ := named(name)
	return k, k.text(*c) != ""
}

// checkTLS compares the settings of TLS with each other.
func (c *Config) checkTLS() []error {
	var problems []error
	enabled, _ := named("kafka.tls_enabled")
	if !c.Kafka.TLSEnabled {
		for _, name := range []string{"kafka.tls_ca_file", "kafka.tls_cert_file", "kafka.tls_key_file"} {
			if k, is := c.given(name); is {
				problems = append(problems, fmt.Errorf("%s is given (%s) and %s is false (%s); set it to true, or leave the file out", k, c.origin(k), enabled, c.origin(enabled)))
			}
		}
		if c.Kafka.TLSInsecureSkipVerify {
			k, _ := named("kafka.tls_insecure_skip_verify")
			problems = append(problems, fmt.Errorf("%s is true (%s) and %s is false (%s); without TLS there is nothing to verify", k, c.origin(k), enabled, c.origin(enabled)))
		}
		return problems
	}
	cert, hasCert := c.given("kafka.tls_cert_file")
	key, hasKey := c.given("kafka.tls_key_file")
	switch {
	case hasCert && !hasKey:
		problems = append(problems, fmt.Errorf("%s is given (%s) without %s; give both, or none", cert, c.origin(cert), key))
	case hasKey && !hasCert:
		problems = append(problems, fmt.Errorf("%s is given (%s) without %s; give both, or none", key, c.origin(key), cert))
	}
	return problems
}

// loginSettings are the settings that a mechanism needs one of each group of.
func loginSettings(mechanism string) [][]string {
	switch mechanism {
	case "plain", "scram-sha-256", "scram-sha-512":
		return [][]string{{"kafka.sasl_username"}, {"kafka.sasl_password_file", "kafka.sasl_password"}}
	case "oauthbearer":
		return [][]string{{"kafka.sasl_token_file"}}
	}
	return nil
}

// checkLogin compares the given settings of the login with the settings that its mechanism needs.
func (c *Config) checkLogin() []error {
	var problems []error
	mechanism, _ := named("kafka.sasl_mechanism")
	is := fmt.Sprintf("%s is %s (%s)", mechanism, c.Kafka.SASLMechanism, c.origin(mechanism))
	of := map[string]bool{}
	for _, group := range loginSettings(c.Kafka.SASLMechanism) {
		var there []string
		for _, name := range group {
			of[name] = true
			if k, is := c.given(name); is {
				there = append(there, fmt.Sprintf("%s (%s)", k, c.origin(k)))
			}
		}
		switch {
		case len(there) == 0:
			problems = append(problems, fmt.Errorf("%s, and %s is not set", is, strings.Join(group, " or ")))
		case len(there) > 1:
			problems = append(problems, fmt.Errorf("%s are both set; give one", strings.Join(there, " and ")))
		}
	}
	if c.Kafka.SASLMechanism == "aws_msk_iam" {
		for _, name := range awsSettings {
			of[name] = true
		}
		problems = append(problems, c.checkAWS(is)...)
	}
	for _, name := range append([]string{"kafka.sasl_username", "kafka.sasl_password", "kafka.sasl_password_file", "kafka.sasl_token_file"}, awsSettings...) {
		if k, there := c.given(name); there && !of[name] {
			problems = append(problems, fmt.Errorf("%s is given (%s) and not used: %s", k, c.origin(k), is))
		}
	}
	return problems
}

// awsSettings are the settings of aws_msk_iam alone; none of them is needed.
var awsSettings = []string{"kafka.sasl_aws_credentials_file", "kafka.sasl_aws_access_key_id", "kafka.sasl_aws_secret_access_key", "kafka.sasl_aws_session_token"}

// checkAWS compares the settings of the keys with each other; is names the mechanism and its place.
func (c *Config) checkAWS(is string) []error {
	var problems []error
	if !c.Kafka.TLSEnabled {
		k, _ := named("kafka.tls_enabled")
		problems = append(problems, fmt.Errorf("%s, and %s is false (%s): brokers of Amazon MSK take this login through TLS alone; set it to true", is, k, c.origin(k)))
	}
	file, hasFile := c.given(awsSettings[0])
	id, hasID := c.given(awsSettings[1])
	secret, hasSecret := c.given(awsSettings[2])
	token, hasToken := c.given(awsSettings[3])
	switch {
	case hasFile:
		for _, name := range awsSettings[1:] {
			if k, there := c.given(name); there {
				problems = append(problems, fmt.Errorf("%s (%s) and %s (%s) are both set; the file has all that is needed, so leave the other out", file, c.origin(file), k, c.origin(k)))
			}
		}
	case hasID && !hasSecret:
		problems = append(problems, fmt.Errorf("%s is given (%s) without %s; give both, or none", id, c.origin(id), secret))
	case hasSecret && !hasID:
		problems = append(problems, fmt.Errorf("%s is given (%s) without %s; give both, or none", secret, c.origin(secret), id))
	case hasToken && !hasID:
		problems = append(problems, fmt.Errorf("%s is given (%s) without the keys that it goes with: give %s and %s, too", token, c.origin(token), id, secret))
	}
	return problems
}

// KafkaWarnings are the warnings about connections to brokers that others can listen to.
func (c Config) KafkaWarnings() []string {
	var warnings []string
	if c.Kafka.TLSInsecureSkipVerify {
		k, _ := named("kafka.tls_insecure_skip_verify")
		warnings = append(warnings, fmt.Sprintf("%s is true (%s): ANY CERTIFICATE IS TAKEN FOR THE BROKERS', so an attacker on the network path can read and change events and take the login; give kafka.tls_ca_file instead",
			k, c.origin(k)))
	}
	if m := c.Kafka.SASLMechanism; !c.Kafka.TLSEnabled && (m == "plain" || m == "oauthbearer") {
		k, _ := named("kafka.sasl_mechanism")
		warnings = append(warnings, fmt.Sprintf("%s is %s (%s) and kafka.tls_enabled is false: the login crosses the network readable for everybody", k, m, c.origin(k)))
	}
	return warnings
}
