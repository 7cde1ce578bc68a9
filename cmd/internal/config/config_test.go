package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sentinel stands for a password that must appear nowhere.
const sentinel = "s3ntinel-pa55word"

// write puts a configuration file into a folder of the test and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDefaults: a default is read in the unit of its key. The example file has every default, and TestFieldsSayTheirDefault
// compares it with what the comment says.
func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := Load(From{})
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string][2]any{
		"milliseconds": {c.Outbox.RetryBase, time.Second}, "seconds": {c.Outbox.StormWindow, time.Minute}, "minutes": {c.Console.SessionIdle, 2 * time.Hour}, "hours": {c.DLQ.MaxPendingAge, 168 * time.Hour},
		"days": {c.Outbox.RetentionDays, 30}, "a number": {c.Outbox.BatchSize, 5000}, "a switch": {c.Outbox.Notifier, true}, "a text": {c.DLQ.Topic, "postrider.dlq"},
		"a list": {len(c.DLQ.RedactHeaders), 10}, "nothing": {len(c.Collector.Topics), 0}, "required": {c.Database.URL.Reveal(), ""},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %v, want %v", what, got[0], got[1])
		}
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	path := write(t, "outbox: {batch_size: 2, dispatches: 2, max_attempts: 2, retention_days: 2}\n")
	c, err := Load(From{
		File:     path,
		Environ:  []string{"OUTBOX_BATCH_SIZE=3", "OUTBOX_DISPATCHES=3", "HTTP_ADDRESS=:9", "OUTBOX_MAX_ATTEMPTS="},
		Flags:    map[string]string{"outbox.batch_size": "4"},
		Defaults: map[string]string{"outbox.retention_days": "1", "log.format": "text"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string][2]any{
		"flag over environment":         {c.Outbox.BatchSize, 4},
		"environment over file":         {c.Outbox.Dispatches, 3},
		"empty variable is unset":       {c.Outbox.MaxAttempts, 2},
		"file over replaced default":    {c.Outbox.RetentionDays, 2},
		"replaced default over default": {c.Log.Format, "text"},
		"environment over default":      {c.HTTP.Address, ":9"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %v, want %v", what, got[0], got[1])
		}
	}
}

// Every name that users were promised, with a value that differs from the default.
func TestEnvironmentNames(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"DATABASE_URL": "postgres://u@h:5432/d", "DATABASE_POOLER": "transaction", "OUTBOX_NOTIFIER": "false",
		"KAFKA_BROKERS": "a:1,b:2", "KAFKA_CLIENT_ID": "me", "KAFKA_MAX_MESSAGE_BYTES": "4096", "KAFKA_MAX_REQUEST_BYTES": "1046528",
		"DATABASE_PASSWORD_FILE": "/run/pw", "KAFKA_TLS_ENABLED": "true", "KAFKA_TLS_CA_FILE": "/run/ca.pem", "KAFKA_TLS_CERT_FILE": "/run/cert.pem",
		"KAFKA_TLS_KEY_FILE": "/run/key.pem", "KAFKA_TLS_INSECURE_SKIP_VERIFY": "true", "KAFKA_SASL_MECHANISM": "oauthbearer", "KAFKA_SASL_USERNAME": "me",
		"KAFKA_SASL_PASSWORD": "sentinel", "KAFKA_SASL_PASSWORD_FILE": "/run/pw", "KAFKA_SASL_TOKEN_FILE": "/run/token",
		"KAFKA_SASL_AWS_CREDENTIALS_FILE": "/run/aws", "KAFKA_SASL_AWS_ACCESS_KEY_ID": "AKIAME", "KAFKA_SASL_AWS_SECRET_ACCESS_KEY": "sentinel", "KAFKA_SASL_AWS_SESSION_TOKEN": "sentinel",
		"KAFKA_COMPRESSION": "zstd", "KAFKA_ALLOW_TOPIC_CREATION": "true",
		"OUTBOX_BATCH_SIZE": "7", "OUTBOX_DISPATCHES": "8", "OUTBOX_MAX_ATTEMPTS": "9", "OUTBOX_RETRY_BASE_MS": "10",
		"OUTBOX_RETRY_MAX_MS": "120000", "OUTBOX_RETENTION_DAYS": "0", "OUTBOX_DEAD_LETTER_RETENTION_DAYS": "1",
		"OUTBOX_IDEMPOTENCY_RETENTION_DAYS": "2", "OUTBOX_LOG": "true", "OUTBOX_PUBLISH_TIMEOUT_MS": "500",
		"OUTBOX_AFTER_LAST_ATTEMPT": "halt_key", "OUTBOX_ROUTE_DEAD_LETTER_AFTER_SECONDS": "60", "OUTBOX_MAX_AGE_SECONDS": "86400",
		"OUTBOX_COMMIT_ORDER": "true", "OUTBOX_STORM_EVENTS": "0", "OUTBOX_STORM_WINDOW_SECONDS": "5",
		"DLQ_TOPIC": "dead", "DLQ_CONSUMER_TOPIC": "dead.consumers", "DLQ_GROUP": "g", "DLQ_ENABLED": "false", "DLQ_AUTO_DLQ_ON_STALENESS": "false", "DLQ_INCLUDE_FULL_TASK_SNAPSHOT": "false",
		"DLQ_MAX_PENDING_AGE_HOURS": "24", "DLQ_REASON_STALENESS_TIMEOUT": "false", "DLQ_REASON_MAX_RETRIES_EXCEEDED": "false",
		"DLQ_REASON_WORKER_UNAVAILABLE": "false", "DLQ_REASON_DEPENDENCY_CYCLE_DETECTED": "false", "TASKS_LIFECYCLE_TOPIC": "life",
		"STALENESS_ENABLED": "false", "STALENESS_DETECTION_INTERVAL_SECONDS": "60", "STALENESS_BATCH_SIZE": "50", "STALENESS_DRY_RUN": "true",
		"STALENESS_WAITING_FOR_DEPENDENCIES_MINUTES": "61", "STALENESS_WAITING_FOR_RETRY_MINUTES": "31", "STALENESS_STEPS_IN_PROCESS_MINUTES": "32",
		"STALENESS_TASK_MAX_LIFETIME_HOURS": "48", "STALENESS_AUTO_TRANSITION_TO_ERROR": "false", "STALENESS_AUTO_MOVE_TO_DLQ": "false",
		"STALENESS_EMIT_EVENTS": "false", "STALENESS_EVENT_CHANNEL": "late", "STALENESS_WORKER_UNAVAILABLE_MINUTES": "5",
		"STALENESS_TIME_BUDGET_SECONDS": "30", "STALENESS_LATENCY_LIMIT_MS": "1000", "STALENESS_WARN_PERCENT": "90",
		"ARCHIVE_ENABLED": "false", "ARCHIVE_RETENTION_DAYS": "7", "ARCHIVE_BATCH_SIZE": "10", "ARCHIVE_INTERVAL_HOURS": "1",
		"ARCHIVE_COMPLETED": "false", "ARCHIVE_FAILED": "false", "ARCHIVE_CANCELLED": "true", "ARCHIVE_DLQ_RESOLVED": "false", "HTTP_ADDRESS": "[::1]:0",
		"DLQ_RESOLVE_ON_DELIVERY": "false", "DLQ_OPERATION_RETENTION_DAYS": "7", "DLQ_RETENTION_DAYS": "8", "DLQ_AUDIT_RETENTION_DAYS": "40", "DLQ_PAGE_SIZE_DEFAULT": "10", "DLQ_REDACT_PATHS": "$.card,$..pin", "DLQ_REDACT_HEADERS": "authorization,x-*", "DLQ_PAGE_SIZE_MAX": "50", "DLQ_REQUEUE_LIMIT": "5", "DLQ_PURGE_LIMIT": "6",
		"COLLECTOR_EARLIER_DESKS": "0192f000-0000-7000-8000-000000000001", "COLLECTOR_TOPICS": "a-dlt,b-dlt", "COLLECTOR_PATTERNS": ".*[-.](dlq|dlt|DLT)$,dead.*",
		"COLLECTOR_HEADERS_TOPIC": "x-topic,topic", "COLLECTOR_HEADERS_PARTITION": "x-partition", "COLLECTOR_HEADERS_OFFSET": "x-offset", "COLLECTOR_HEADERS_TIMESTAMP": "x-time",
		"COLLECTOR_HEADERS_GROUP": "x-group", "COLLECTOR_HEADERS_ATTEMPTS": "x-attempts", "COLLECTOR_HEADERS_CODE": "x-code", "COLLECTOR_HEADERS_ERROR": "x-error", "COLLECTOR_HEADERS_STACK": "x-stack",
		"HTTP_API": "false", "HTTP_REQUEST_TIMEOUT_MS": "1000", "HTTP_MAX_BODY_BYTES": "2048", "HTTP_REQUESTS_PER_SECOND": "7", "HTTP_REQUEST_BURST": "8",
		"HTTP_FAILED_LOGINS_PER_MINUTE": "9", "HTTP_IDEMPOTENCY_TTL_HOURS": "48",
		"CONSOLE_ENABLED": "false", "CONSOLE_URL": "https://postrider.example.com", "CONSOLE_NAME": "production", "CONSOLE_SESSION_HOURS": "8", "CONSOLE_SESSION_IDLE_MINUTES": "30",
		"HTTP_TRUSTED_PROXIES": "10.0.0.0/8,::1", "CONSOLE_GROUP_SCOPES": "sre=read+resolve,ops=admin", "CONSOLE_OIDC_ISSUER": "https://login.example.com/main", "CONSOLE_OIDC_LABEL": "Example", "CONSOLE_OIDC_CLIENT_ID": "me",
		"CONSOLE_OIDC_CLIENT_SECRET": "sentinel", "CONSOLE_OIDC_CLIENT_SECRET_FILE": "/run/secret", "CONSOLE_OIDC_SCOPES": "openid,groups", "CONSOLE_OIDC_NAME_CLAIM": "upn", "CONSOLE_OIDC_GROUPS_CLAIM": "roles",
		"CONSOLE_PROXY_USER_HEADER": "X-Forwarded-User", "CONSOLE_PROXY_GROUPS_HEADER": "X-Forwarded-Groups",
		"MCP_ADDRESS": "[::1]:0", "MCP_ALLOW_WRITES": "true",
		"MCP_CONFIRM_TTL_SECONDS": "30", "MCP_ALLOWED_ORIGINS": "https://a.example.com,http://localhost:3000", "LOG_LEVEL": "debug", "LOG_FORMAT": "text",
		"TRACING_ENABLED": "true", "TRACING_ENDPOINT": "http://otel:4318", "TRACING_HEADERS": "key=sentinel", "TRACING_SAMPLE_PERCENT": "50", "TRACING_SERVICE_NAME": "mine",
		"TRACING_HEADERS_FILE": "/run/headers", "TRACING_DATABASE": "true", "TRACING_KAFKA_CLIENT": "true",
	}
	for _, k := range Keys() {
		if _, promised := values[k.Env()]; !promised {
			t.Errorf("%s is not in this table", k.Env())
		}
	}
	// What cannot be given alone.
	plain, oauth := "KAFKA_SASL_MECHANISM=plain", "KAFKA_SASL_MECHANISM=oauthbearer"
	msk := []string{"KAFKA_SASL_MECHANISM=aws_msk_iam", "KAFKA_TLS_ENABLED=1"}
	awsKeys := append([]string{"KAFKA_SASL_AWS_ACCESS_KEY_ID=AKIAME", "KAFKA_SASL_AWS_SECRET_ACCESS_KEY=s"}, msk...)
	beside := map[string][]string{
		"KAFKA_TLS_CA_FILE": {"KAFKA_TLS_ENABLED=1"}, "KAFKA_TLS_INSECURE_SKIP_VERIFY": {"KAFKA_TLS_ENABLED=1"},
		"KAFKA_TLS_CERT_FILE": {"KAFKA_TLS_ENABLED=1", "KAFKA_TLS_KEY_FILE=k"}, "KAFKA_TLS_KEY_FILE": {"KAFKA_TLS_ENABLED=1", "KAFKA_TLS_CERT_FILE=c"},
		"KAFKA_SASL_MECHANISM": {"KAFKA_SASL_TOKEN_FILE=t"}, "KAFKA_SASL_TOKEN_FILE": {oauth}, "KAFKA_SASL_USERNAME": {plain, "KAFKA_SASL_PASSWORD=p"},
		"KAFKA_SASL_PASSWORD": {plain, "KAFKA_SASL_USERNAME=u"}, "KAFKA_SASL_PASSWORD_FILE": {plain, "KAFKA_SASL_USERNAME=u"},
		"KAFKA_SASL_AWS_CREDENTIALS_FILE": msk, "KAFKA_SASL_AWS_ACCESS_KEY_ID": awsKeys[1:], "KAFKA_SASL_AWS_SECRET_ACCESS_KEY": append(awsKeys[:1:1], msk...), "KAFKA_SASL_AWS_SESSION_TOKEN": awsKeys,
	}
	provider := []string{"CONSOLE_OIDC_ISSUER=https://login.example.com", "CONSOLE_OIDC_CLIENT_ID=me", "CONSOLE_GROUP_SCOPES=sre=read"}
	byProxy := []string{"CONSOLE_PROXY_USER_HEADER=X-User", "CONSOLE_PROXY_GROUPS_HEADER=X-Groups", "HTTP_TRUSTED_PROXIES=10.0.0.1", "CONSOLE_GROUP_SCOPES=sre=read"}
	beside["CONSOLE_OIDC_ISSUER"], beside["CONSOLE_OIDC_CLIENT_ID"], beside["CONSOLE_GROUP_SCOPES"] = provider[1:], []string{provider[0], provider[2]}, provider[:2]
	for _, field := range []string{"LABEL", "CLIENT_SECRET", "CLIENT_SECRET_FILE", "SCOPES", "NAME_CLAIM", "GROUPS_CLAIM"} {
		beside["CONSOLE_OIDC_"+field] = provider
	}
	beside["CONSOLE_PROXY_USER_HEADER"], beside["CONSOLE_PROXY_GROUPS_HEADER"] = byProxy[1:], []string{byProxy[0], byProxy[2], byProxy[3]}
	for _, field := range []string{"PARTITION", "OFFSET", "TIMESTAMP", "GROUP", "ATTEMPTS", "CODE", "STACK"} {
		beside["COLLECTOR_HEADERS_"+field] = []string{"COLLECTOR_HEADERS_TOPIC=t"}
	}
	for name, value := range values {
		names := []string{name}
		if strings.HasPrefix(name, "OUTBOX_") {
			names = append(names, "A2A_"+name)
		}
		// The file's keys of this section begin with its name, and may be written out in the environment as well.
		if rest, of := strings.CutPrefix(name, "ARCHIVE_"); of && rest != "ENABLED" && rest != "RETENTION_DAYS" {
			names = append(names, "ARCHIVE_ARCHIVE_"+rest)
		}
		for _, n := range names {
			c, err := Load(From{Environ: append([]string{n + "=" + value}, beside[name]...)})
			if err != nil {
				t.Errorf("%s=%s: %v", n, value, err)
				continue
			}
			for _, k := range Keys() {
				if k.Env() == name && k.text(c) != value && !k.Secret() {
					t.Errorf("%s=%s: %s is %q", n, value, k, k.text(c))
				}
			}
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	c, err := Load(From{
		File:    write(t, "kafka:\n  brokers: [ \"broker-1:9092\", 'broker_2.internal:9093', \"[::1]:9094\" ]\noutbox:\n  retry_base_ms: \"250\"\ndatabase:\n"),
		Environ: []string{"A2A_OUTBOX_LOG=1", "KAFKA_ALLOW_TOPIC_CREATION=1", "LOG_LEVEL=WARN", "KAFKA_CLIENT_ID= spaced "},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Kafka.Brokers); got != "[broker-1:9092 broker_2.internal:9093 [::1]:9094]" {
		t.Errorf("brokers %s", got)
	}
	if c.Outbox.RetryBase != 250*time.Millisecond || !c.Outbox.Log || !c.Kafka.AllowTopicCreation || c.Log.Level != "warn" || c.Kafka.ClientID != "spaced" {
		t.Errorf("values:\n%s", c)
	}
	c, err = Load(From{File: write(t, "kafka:\n  brokers: a:1, b:2\n")})
	if err != nil || len(c.Kafka.Brokers) != 2 {
		t.Errorf("brokers in one string: %v, %v", c.Kafka.Brokers, err)
	}
}

func TestRequire(t *testing.T) {
	t.Parallel()
	c, err := Load(From{Flags: map[string]string{"kafka.brokers": "localhost:9092"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Require("kafka.brokers"); err != nil {
		t.Error(err)
	}
	err = c.Require("kafka.brokers", "database.url")
	for _, part := range []string{"database.url is not set", "--database-url", "DATABASE_URL"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

// However a Config is printed, its password is not in it.
func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	for dsn, parameters := range map[string]string{
		"postgres://relay:" + sentinel + "@db.example:6432/app?sslmode=disable":                     "?sslmode=disable",
		"postgres://relay@db.example:6432/app?password=" + sentinel + "&sslmode=disable":            "?sslmode=disable",
		"postgres://relay:x@db.example:6432/app?sslmode=require&options=-c%20app.key%3D" + sentinel: "?sslmode=require",
		"host=db.example port=6432 user=relay dbname=app password=" + sentinel:                      "",
	} {
		c, err := Load(From{Environ: []string{"DATABASE_URL=" + dsn}})
		if err != nil {
			t.Fatal(err)
		}
		if c.Database.URL.Reveal() != dsn {
			t.Error("Reveal does not return the connection string")
		}
		var out bytes.Buffer
		for _, log := range []*slog.Logger{slog.New(slog.NewJSONHandler(&out, nil)), slog.New(slog.NewTextHandler(&out, nil))} {
			log.Info("settings", "config", c, "section", c.Database, "url", c.Database.URL, "pointer", &c)
		}
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			fmt.Fprintf(&out, format+"\n", c)
			fmt.Fprintf(&out, format+"\n", c.Database)
			fmt.Fprintf(&out, format+"\n", &c)
		}
		marshalled, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(marshalled)
		if strings.Contains(out.String(), sentinel) {
			t.Errorf("the password is shown:\n%s", out.String())
		}
		if !strings.Contains(c.String(), "database.url: postgres://relay:xxxxx@db.example:6432/app"+parameters+"\n") {
			t.Errorf("user, host, port, database and sslmode should be shown:\n%s", c)
		}
	}
}
