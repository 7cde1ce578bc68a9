package config

import (
	"fmt"
	"strings"
)

// given reports whether a text of the section kafka is given.
func (c *Config) given(name string) (Key, bool) {
	k, _ := named(name)
	return k, k.text(*c) != ""
}

// checkTLS compares what is said about TLS.
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

// checkLogin compares what is said about the login with what its mechanism needs.
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
	for _, name := range []string{"kafka.sasl_username", "kafka.sasl_password", "kafka.sasl_password_file", "kafka.sasl_token_file"} {
		if k, there := c.given(name); there && !of[name] {
			problems = append(problems, fmt.Errorf("%s is given (%s) and not used: %s", k, c.origin(k), is))
		}
	}
	return problems
}

// KafkaWarnings are those of Warnings that are about connections to brokers that others can listen to.
func (c Config) KafkaWarnings() []string {
	var warnings []string
	if c.Kafka.TLSInsecureSkipVerify {
		k, _ := named("kafka.tls_insecure_skip_verify")
		warnings = append(warnings, fmt.Sprintf("%s is true (%s): ANY CERTIFICATE IS TAKEN FOR THE BROKERS', so whoever stands between can read and change events and take the login; give kafka.tls_ca_file instead",
			k, c.origin(k)))
	}
	if m := c.Kafka.SASLMechanism; !c.Kafka.TLSEnabled && (m == "plain" || m == "oauthbearer") {
		k, _ := named("kafka.sasl_mechanism")
		warnings = append(warnings, fmt.Sprintf("%s is %s (%s) and kafka.tls_enabled is false: the login crosses the network readable for everybody", k, m, c.origin(k)))
	}
	return warnings
}
