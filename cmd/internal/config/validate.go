package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// validate checks what no key can check alone. Keys whose own value is wrong are left out: the mistake
// is reported already, and what follows from it says nothing.
func (c *Config) validate(wrong map[string]bool) []error {
	var problems []error
	if !wrong["outbox.retry_base_ms"] && !wrong["outbox.retry_max_ms"] {
		problems = append(problems, c.checkRetry()...)
	}
	if !wrong["database.url"] && !wrong["outbox.publish_timeout_ms"] {
		problems = append(problems, c.checkSessions()...)
	}
	if !wrong["staleness.time_budget_seconds"] && !wrong["staleness.latency_limit_ms"] {
		problems = append(problems, c.checkStaleness()...)
	}
	custom := c.Collector.CustomHeaders()
	if err := custom.Check(); err != nil {
		problems = append(problems, fmt.Errorf("collector.headers: %w", err))
	}
	if !wrong["dlq.page_size_default"] && !wrong["dlq.page_size_max"] {
		problems = append(problems, c.checkPages()...)
	}
	if !wrong["kafka.tls_enabled"] && !wrong["kafka.tls_insecure_skip_verify"] && !wrong["kafka.sasl_mechanism"] {
		problems = append(problems, c.checkTLS()...)
		problems = append(problems, c.checkLogin()...)
	}
	if !wrong["tracing.headers"] {
		problems = append(problems, c.checkTracing()...)
	}
	if !slices.ContainsFunc([]string{"http.trusted_proxies", "console.group_scopes", "console.url", "console.oidc_issuer", "console.oidc_scopes", "console.proxy_user_header", "console.proxy_groups_header"},
		func(name string) bool { return wrong[name] }) {
		problems = append(problems, c.checkSignIn()...)
	}
	return append(problems, c.checkSources(wrong)...)
}

// checkRetry compares the two retry delays of the sections, and the two delays of topics that rules match: where two
// rules, or a rule and the sections, give one delay each, it compares them for a topic that both match.
func (c *Config) checkRetry() []error {
	base, _ := named("outbox.retry_base_ms")
	limit, _ := named("outbox.retry_max_ms")
	if c.Outbox.RetryMax < c.Outbox.RetryBase {
		return []error{fmt.Errorf("%s is %d (%s), less than %s, which is %d (%s); it must be at least as much",
			limit, c.Outbox.RetryMax.Milliseconds(), c.origin(limit), base, c.Outbox.RetryBase.Milliseconds(), c.origin(base))}
	}
	var problems []error
	var reported []string
	for _, one := range c.Topics {
		if !one.sets("retry_base_ms") && !one.sets("retry_max_ms") {
			continue
		}
		for _, glob := range append([]string{"*"}, globs(c.Topics)...) {
			topic, exists := joint(one.match, glob)
			if !exists {
				continue
			}
			origins := map[string]string{}
			own := c.forTopic(topic, origins)
			if own.Outbox.RetryMax >= own.Outbox.RetryBase {
				continue
			}
			at := func(name string, k Key) string {
				if origin := origins[name]; origin != "" {
					return origin
				}
				return k.String() + ", " + c.origin(k)
			}
			baseAt, limitAt := at("retry_base_ms", base), at("retry_max_ms", limit)
			if pair := baseAt + "\n" + limitAt; !slices.Contains(reported, pair) {
				reported = append(reported, pair)
				problems = append(problems, fmt.Errorf("for the topic %s retry_max_ms is %d (%s), less than retry_base_ms, which is %d (%s); it must be at least as much",
					topic, own.Outbox.RetryMax.Milliseconds(), limitAt, own.Outbox.RetryBase.Milliseconds(), baseAt))
			}
		}
	}
	return problems
}

func globs(rules []TopicRule) []string {
	all := make([]string, len(rules))
	for i, r := range rules {
		all[i] = r.match
	}
	return all
}

// SettleTime is what a relay has, after the wait for acknowledgements, to settle its batches.
const SettleTime = 10 * time.Second

// checkSessions looks at parameters of the connection string that the relay cannot work with.
func (c *Config) checkSessions() []error {
	if c.Database.URL == "" {
		return nil
	}
	parsed, err := pgconn.ParseConfig(c.Database.URL.Reveal())
	if err != nil {
		return nil // checkDatabaseURL has accepted it
	}
	var problems []error
	url, _ := named("database.url")
	timeout, _ := named("outbox.publish_timeout_ms")
	for name := range parsed.RuntimeParams {
		if strings.HasPrefix(name, "pool_") {
			problems = append(problems, fmt.Errorf("%s (%s) has the parameter %s; take it out: Postrider decides how many connections it opens",
				url, c.origin(url), strings.Map(printable, name)))
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	needed := c.Outbox.PublishTimeout + SettleTime
	if text, given := parsed.RuntimeParams["transaction_timeout"]; given {
		limit, err := sessionTimeout(text)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("transaction_timeout in %s (%s) is wrong: %w", url, c.origin(url), err))
		case limit > 0 && limit <= needed:
			problems = append(problems, fmt.Errorf("transaction_timeout in %s (%s) is %v; it must be 0, or more than %v: %s, which is %v (%s), and %v to settle a batch",
				url, c.origin(url), limit, needed, timeout, c.Outbox.PublishTimeout, c.origin(timeout), SettleTime))
		}
	}
	return problems
}

// sessionTimeout reads a time as PostgreSQL does: a number of milliseconds, or a number with a unit.
func sessionTimeout(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		text, end = text+"ms", len(text)
	}
	number, err := strconv.ParseFloat(text[:end], 64)
	unit, known := map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"min": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[strings.TrimSpace(text[end:])]
	if err != nil || !known || number > 1e9 {
		return 0, errors.New("it must be a number of milliseconds, or a number with one of the units us, ms, s, min, h, d")
	}
	return time.Duration(number * float64(unit)), nil
}

// Warnings returns the settings that are allowed and probably not meant, each with its origin.
func (c Config) Warnings() []string {
	warnings := slices.Concat(c.KafkaWarnings(), c.tracingWarnings(), c.consoleWarnings())
	topics := c.CollectedTopics()
	if slices.Contains(c.DLQTopics(), c.DLQ.ConsumerTopic) {
		k, _ := named("dlq.consumer_topic")
		warnings = append(warnings, fmt.Sprintf("%s: relays write their dead letters to %s, too: each consumer that may write there can forge those of events", c.origin(k), c.DLQ.ConsumerTopic))
	}
	sectionLimit, _ := named("kafka.max_message_bytes")
	for _, r := range c.Topics {
		if slices.Contains(topics, r.match) {
			warnings = append(warnings, fmt.Sprintf("%s: the rule is for %s, which is a dead-letter topic: an event that a service writes for it is collected as a dead letter", r.origin, r.match))
		}
		for _, v := range r.values {
			var own Config
			v.give(&own)
			if v.name == "max_message_bytes" && own.Kafka.MaxMessageBytes > c.Kafka.MaxMessageBytes {
				warnings = append(warnings, fmt.Sprintf("%s: %s is %d and changes nothing: %s is %d (%s), and the smaller one counts",
					v.origin, v.describe(r.match), own.Kafka.MaxMessageBytes, sectionLimit, c.Kafka.MaxMessageBytes, c.origin(sectionLimit)))
			}
		}
	}
	for _, k := range keys() {
		if k.Required && k.text(c) == "" && (k.String() != "database.url" || !c.HasSources()) {
			warnings = append(warnings, fmt.Sprintf("%s is not set here; postrider serve needs it, from this file, %s or --%s", k, k.Env(), k.Flag()))
		}
	}
	return warnings
}

// checkPages compares the sizes of pages.
func (c *Config) checkPages() []error {
	size, _ := named("dlq.page_size_default")
	if limit, _ := named("dlq.page_size_max"); c.DLQ.PageSizeDefault > c.DLQ.PageSizeMax {
		return []error{fmt.Errorf("%s is %d (%s), more than %s, which is %d (%s); it must not be more",
			size, c.DLQ.PageSizeDefault, c.origin(size), limit, c.DLQ.PageSizeMax, c.origin(limit))}
	}
	return nil
}

// checkStaleness compares the times of the detector.
func (c *Config) checkStaleness() []error {
	budget, _ := named("staleness.time_budget_seconds")
	if limit, _ := named("staleness.latency_limit_ms"); c.Staleness.LatencyLimit > c.Staleness.TimeBudget {
		return []error{fmt.Errorf("%s is %d (%s), more than %s, which is %d seconds (%s); one batch cannot take longer than the pass that it is part of",
			limit, c.Staleness.LatencyLimit.Milliseconds(), c.origin(limit), budget, int(c.Staleness.TimeBudget.Seconds()), c.origin(budget))}
	}
	return nil
}

// checkTracing compares the settings of tracing with each other.
func (c *Config) checkTracing() []error {
	headers, has := c.given("tracing.headers")
	file, hasFile := c.given("tracing.headers_file")
	if !has || !hasFile {
		return nil
	}
	return []error{fmt.Errorf("%s (%s) and %s (%s) are both set; give one", headers, c.origin(headers), file, c.origin(file))}
}

// tracingWarnings are the warnings about settings of tracing that change nothing because tracing is off.
func (c Config) tracingWarnings() []string {
	if c.Tracing.Enabled {
		return nil
	}
	var warnings []string
	for _, name := range []string{"tracing.endpoint", "tracing.headers", "tracing.headers_file", "tracing.database", "tracing.kafka_client"} {
		if k, _ := named(name); k.text(c) != k.Default {
			warnings = append(warnings, fmt.Sprintf("%s is given (%s) and tracing.enabled is false: no spans are sent", k, c.origin(k)))
		}
	}
	return warnings
}
