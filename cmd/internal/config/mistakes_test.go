package config

import (
	"strings"
	"testing"
)

// Each mistake names its place and what to write instead, and no message shows a password.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file    string
		environ []string
		flags   map[string]string
		want    []string
		not     string
	}{
		"unknown key":               {file: "outbox:\n  dispatches: 2\n  batch_sise: 5\n", want: []string{"postrider.yaml:3", "outbox.batch_sise", "outbox.batch_size"}},
		"removed key":               {file: "outbox:\n  workers: 4\n", want: []string{"postrider.yaml:2", "outbox.workers is no setting any more", "one relay leads the outbox", "outbox.dispatches"}},
		"removed variable":          {environ: []string{"OUTBOX_WORKERS=4"}, want: []string{"environment variable OUTBOX_WORKERS", "outbox.workers, which is no setting any more", "outbox.dispatches"}},
		"removed variable, alias":   {environ: []string{"A2A_OUTBOX_WORKERS=4"}, want: []string{"environment variable A2A_OUTBOX_WORKERS", "outbox.workers"}},
		"unknown section":           {file: "\noutbux:\n  batch_size: 5\n", want: []string{"postrider.yaml:2", "section outbux", "section is outbox"}},
		"key without its section":   {file: "batch_size: 5\n", want: []string{"postrider.yaml:1", "unknown key batch_size", "outbox.batch_size"}},
		"key as in environment":     {file: "OUTBOX_BATCH_SIZE: 5\n", want: []string{"postrider.yaml:1", "outbox.batch_size"}},
		"key of another section":    {file: "kafka:\n  batch_size: 5\n", want: []string{"postrider.yaml:2", "kafka.batch_size", "outbox.batch_size"}},
		"secret in the wrong place": {file: "database: postgres://u:" + sentinel + "@h/d\n", want: []string{"postrider.yaml:1", "section database must be a mapping"}, not: sentinel},
		"secret as an unknown key":  {file: "database_uri: postgres://u:" + sentinel + "@h/d\n", want: []string{"database_uri", "database.url"}, not: sentinel},
		"broken quotes":             {file: "database:\n  url: \"postgres://u:" + sentinel + "@h/d\n", want: []string{"postrider.yaml:2", "not valid YAML"}, not: sentinel},
		"broken indent":             {file: "database:\n  url: postgres://u:" + sentinel + "@h/d\n    x: : {\n", want: []string{"postrider.yaml:", "not valid YAML"}, not: sentinel},
		"set twice":                 {file: "outbox:\n  dispatches: 2\n  dispatches: 3\n", want: []string{"postrider.yaml:3", "outbox.dispatches", "line 2"}},
		"section twice":             {file: "outbox:\n  dispatches: 2\noutbox:\n  batch_size: 3\n", want: []string{"postrider.yaml:3", "outbox", "line 1"}},
		"two documents":             {file: "outbox:\n  dispatches: 2\n---\noutbox:\n  dispatches: 3\n", want: []string{"postrider.yaml:3", "second document"}},
		"a list":                    {file: "- outbox\n", want: []string{"postrider.yaml:1", "the file must be a mapping"}},
		"a mapping for a value":     {file: "outbox:\n  dispatches: {a: 1}\n", want: []string{"postrider.yaml:2", "outbox.dispatches must be a plain value"}},
		"a list for a number":       {file: "outbox:\n  dispatches: [1]\n", want: []string{"postrider.yaml:2", "outbox.dispatches must be a plain value"}},
		"a mapping without spaces":  {file: "outbox: [dispatches:1]\n", want: []string{"postrider.yaml:1", "the section outbox must be a mapping", "not a list"}},
		"lines without spaces":      {file: "outbox:\n  dispatches:1\n", want: []string{"postrider.yaml:2", "the section outbox must be a mapping", "a space is missing behind the colon"}},
		"a rule without spaces":     {file: "topics: [match:orders]\n", want: []string{"postrider.yaml:1", "rule 1 of topics must be a mapping", "a space is missing behind the colon"}},
		"a list without spaces":     {file: "outbox:\n  dispatches: [a:1]\n", want: []string{"postrider.yaml:2", "outbox.dispatches must be a plain value, not a list"}},
		"mappings in a list":        {file: "collector:\n  topics: [a: 1]\n", want: []string{"postrider.yaml:2", "collector.topics must be a list of plain values, not a mapping"}},
		"a secret without a space":  {file: "database: url:" + sentinel + "\n", want: []string{"the section database must be a mapping", "a space is missing behind the colon"}, not: sentinel},
		"a topic without a space":   {file: "collector:\n  topics: [a:1]\n", want: []string{"postrider.yaml:2", `"a:1"`, "collector.topics", "Kafka topic name"}},
		"an alias":                  {file: "outbox: &x\n  dispatches: 1\nkafka: *x\n", want: []string{"must be a mapping"}},
		"number, file":              {file: "outbox:\n  batch_size: many\n", want: []string{"outbox.batch_size", "postrider.yaml:2", `"many"`, "from 1 to 20000"}},
		"number, environment":       {environ: []string{"OUTBOX_BATCH_SIZE=0"}, want: []string{"outbox.batch_size", "environment variable OUTBOX_BATCH_SIZE", `"0"`, "from 1 to 20000"}},
		"number, alias":             {environ: []string{"A2A_OUTBOX_DISPATCHES=1.5"}, want: []string{"outbox.dispatches", "environment variable A2A_OUTBOX_DISPATCHES", `"1.5"`, "from 1 to 64"}},
		"number, flag":              {flags: map[string]string{"outbox.dispatches": "-1"}, want: []string{"outbox.dispatches", "flag --outbox-dispatches", `"-1"`}},
		"overridden but wrong":      {file: "outbox:\n  dispatches: x\n", environ: []string{"OUTBOX_DISPATCHES=2"}, want: []string{"postrider.yaml:2"}},
		"boolean":                   {environ: []string{"OUTBOX_LOG=yes"}, want: []string{"outbox.log", `"yes"`, "true, false, 1 or 0"}},
		"boolean of YAML 1.1":       {file: "outbox:\n  log: yes\n", want: []string{"postrider.yaml:2", `"yes"`}},
		"choice":                    {environ: []string{"KAFKA_COMPRESSION=brotli"}, want: []string{"kafka.compression", `"brotli"`, "none, lz4, zstd, snappy, gzip"}},
		"control characters":        {environ: []string{"LOG_LEVEL=\x1b[31mred"}, want: []string{`\x1b[31mred`}, not: "\x1b"},
		"topic":                     {environ: []string{"DLQ_TOPIC=a b"}, want: []string{"dlq.topic", `"a b"`, "letters, digits"}},
		"listen address":            {environ: []string{"HTTP_ADDRESS=8080"}, want: []string{"http.address", `"8080"`, "host:port"}},
		"listen port":               {environ: []string{"HTTP_ADDRESS=:99999"}, want: []string{"http.address", "0 to 65535"}},
		"origin, any":               {environ: []string{"MCP_ALLOWED_ORIGINS=*"}, want: []string{"mcp.allowed_origins", `"*"`, "https://agents.example.com"}},
		"origin, path":              {environ: []string{"MCP_ALLOWED_ORIGINS=https://a.example.com,https://b.example.com/"}, want: []string{"mcp.allowed_origins", "without a path"}},
		"retry order":               {environ: []string{"OUTBOX_RETRY_BASE_MS=2000", "OUTBOX_RETRY_MAX_MS=1000"}, want: []string{"outbox.retry_max_ms is 1000", "outbox.retry_base_ms, which is 2000"}},
		"both prefixes":             {environ: []string{"OUTBOX_DISPATCHES=2", "A2A_OUTBOX_DISPATCHES=3"}, want: []string{"outbox.dispatches", "OUTBOX_DISPATCHES and A2A_OUTBOX_DISPATCHES", "different values"}},
		"unknown variable":          {environ: []string{"OUTBOX_BATCHSIZE=2"}, want: []string{"OUTBOX_BATCHSIZE", "nearest setting is OUTBOX_BATCH_SIZE"}},
		"unknown with prefix":       {environ: []string{"A2A_OUTBOX_BATCH=2"}, want: []string{"A2A_OUTBOX_BATCH", "nearest setting is A2A_OUTBOX_BATCH_SIZE"}},
		"unknown, project name":     {environ: []string{"POSTRIDER_DATABASE_URL=postgres://u:" + sentinel + "@h/d"}, want: []string{"POSTRIDER_DATABASE_URL", "nearest setting is DATABASE_URL"}, not: sentinel},
		"unknown, dlq":              {environ: []string{"DLQ_TOPICS=a"}, want: []string{"DLQ_TOPICS", "nearest setting is DLQ_TOPIC"}},
		"message limit":             {environ: []string{"KAFKA_MAX_MESSAGE_BYTES=4095"}, want: []string{"kafka.max_message_bytes", `"4095"`, "from 4096 to"}},
		"retry order, places":       {file: "outbox:\n  retry_base_ms: 5000\n", environ: []string{"OUTBOX_RETRY_MAX_MS=1000"}, want: []string{"postrider.yaml:2", "environment variable OUTBOX_RETRY_MAX_MS"}},
		"pool in the URL":           {environ: []string{"DATABASE_URL=postgres://u:" + sentinel + "@h/d?pool_max_conns=4"}, want: []string{"database.url (environment variable DATABASE_URL) has the parameter pool_max_conns", "decides how many connections"}, not: sentinel},
		"transaction timeout":       {environ: []string{"DATABASE_URL=postgres://u:" + sentinel + "@h/d?transaction_timeout=15s", "OUTBOX_PUBLISH_TIMEOUT_MS=6000"}, want: []string{"transaction_timeout", "is 15s", "more than 16s", "OUTBOX_PUBLISH_TIMEOUT_MS"}, not: sentinel},
		"transaction timeout, text": {environ: []string{"DATABASE_URL=postgres://h/d?transaction_timeout=soon"}, want: []string{"transaction_timeout", "milliseconds"}},
		"all at once": {file: "outbox:\n  dispatches: x\n  foo: 1\n", environ: []string{"DLQ_X=1", "LOG_LEVEL=loud", "OUTBOX_RETRY_BASE_MS=70000", "DATABASE_URL=postgres://h/d?pool_min_conns=1"},
			want: []string{"outbox.dispatches", "outbox.foo", "DLQ_X", "log.level", "outbox.retry_max_ms is 60000", "pool_min_conns"}},
		"wrong once": {environ: []string{"OUTBOX_RETRY_BASE_MS=70000", "OUTBOX_RETRY_MAX_MS=x"}, want: []string{"outbox.retry_max_ms from"}, not: "at least as much"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := From{Environ: c.environ, Flags: c.flags}
			if c.file != "" {
				s.File = write(t, c.file)
			}
			refused(t, s, c.want, c.not)
		})
	}
}

// refused fails the test unless settings are refused in words that have these parts, and not the other one.
func refused(t *testing.T, s From, parts []string, not string) {
	t.Helper()
	got, err := Load(s)
	if err == nil {
		t.Fatalf("accepted:\n%s", got)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in the error:\n%v", part, err)
		}
	}
	if not != "" && strings.Contains(err.Error(), not) {
		t.Errorf("the error shows %q:\n%v", not, err)
	}
}

func TestNotMistakes(t *testing.T) {
	t.Parallel()
	environ := []string{
		"DATABASE_URL=postgres://h/d?transaction_timeout=30s",
		"POSTRIDER_TEST_DATABASE_URL=x", "POSTRIDER_POSTGRES_BIN=/x", // read by others
		"OUTBOX_DISPATCHES=2", "A2A_OUTBOX_DISPATCHES=2", // the same value twice
		"OUTBOX_SOMETHING=", // unset
		"KAFKA_OPTS=-Xmx1g", "LOG_DIR=/x", "HTTP_PROXY=x", "DATABASE_HOST=x", "A2A_OTHER=1", "MY_OUTBOX_X=1",
		// What an orchestrator adds for services called postrider, postrider-metrics and outbox.
		"POSTRIDER_SERVICE_HOST=10.0.0.1", "POSTRIDER_SERVICE_PORT=80", "POSTRIDER_SERVICE_PORT_HTTP=80", "POSTRIDER_PORT=tcp://10.0.0.1:80",
		"POSTRIDER_PORT_80_TCP=tcp://10.0.0.1:80", "POSTRIDER_PORT_80_TCP_PROTO=tcp", "POSTRIDER_PORT_80_TCP_PORT=80", "POSTRIDER_PORT_80_TCP_ADDR=10.0.0.1",
		"POSTRIDER_METRICS_SERVICE_HOST=10.0.0.1", "OUTBOX_PORT_80_TCP_ADDR=10.0.0.1",
	}
	for _, file := range []string{"", "# nothing\n", "---\n", "outbox:\n", "outbox:\n  dispatches:\n", "{}\n", "topics:\n", "topics: []\n"} {
		if _, err := Load(From{File: write(t, file), Environ: environ}); err != nil {
			t.Errorf("file %q: %v", file, err)
		}
	}
	if _, err := Load(From{File: "/nowhere/postrider.yaml"}); err == nil || !strings.Contains(err.Error(), "/nowhere/postrider.yaml") {
		t.Errorf("missing file: %v", err)
	}
}

func TestBrokers(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"localhost:9092": true, "10.0.0.1:1": true, "[fe80::1]:65535": true, "a-b.c_d.example.:9092": true, "a:1,b:2": true, " a:1 , b:2 ": true,
		"localhost": false, "localhost:": false, ":9092": false, "localhost:0": false, "localhost:65536": false, "localhost:kafka": false,
		"kafka://localhost:9092": false, "a:1,": false, "a:1,,b:2": false, "a b:9092": false, "fe80::1:9092": false, "-a:1": false, "a/b:1": false,
		"localhost:+1": false, "a:1 b:2": false, "user:" + sentinel + "@host:9092": false,
	} {
		_, err := Load(From{Flags: map[string]string{"kafka.brokers": text}})
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "host:port") || strings.Contains(err.Error(), sentinel)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDatabaseURLs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"postgres://u:p@h/d", "postgresql://u:p%40%2F@h:5432/d?sslmode=require", "host=/tmp dbname=d", "postgres://h1:1,h2:2/d?target_session_attrs=read-write",
		"postgres:///d?host=/var/run/postgresql",
	} {
		if _, err := Load(From{Flags: map[string]string{"database.url": text}}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"mysql://u:" + sentinel + "@h/d", sentinel, "postgres://u:" + sentinel + "%zz@h/d", "postgres://u:%" + sentinel + "@h/d",
		"postgres://u:" + sentinel + "#x@h/d", "postgres://u:" + sentinel + "/@h/d", "postgres://u:" + sentinel + "@h:port/d",
		"postgres://u:" + sentinel + "@h:99999/d", "postgres://u:" + sentinel + "@h/d?sslmode=" + sentinel, "host=h password='" + sentinel,
		"postgres://u:" + sentinel + " @h/d", "postgres://u:" + sentinel + "@h/d?connect_timeout=" + sentinel,
		"postgres://u:x@h/d?sslrootcert=/nowhere/" + sentinel + "&sslmode=verify-full", "postgres:// u:" + sentinel,
		"postgres://u:x@" + sentinel + "@h/d", "postgres://u:x@" + sentinel + "@h:5432,h2/d?sslmode=disable",
	} {
		_, err := Load(From{Flags: map[string]string{"database.url": text}})
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		if strings.Contains(err.Error(), sentinel) || !strings.Contains(err.Error(), "database.url from flag --database-url: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if got := DatabaseURL("postgres://u:%" + sentinel).String(); strings.Contains(got, sentinel) {
		t.Errorf("an invalid string is shown: %s", got)
	}
	if got := DatabaseURL("postgres://u:" + sentinel + "@h/d?sslmode=verify-full&connect_timeout=3&options=-c%20a.b%3D" + sentinel).String(); got != "postgres://u:xxxxx@h:5432/d?connect_timeout=3&sslmode=verify-full" {
		t.Error(got)
	}
	if got := DatabaseURL("host=/tmp/x dbname=d user=u").String(); got != "postgres://u@/d?host=%2Ftmp%2Fx&port=5432" {
		t.Errorf("socket: %s", got)
	}
}

// No text of a file makes reading it panic, or its messages carry control characters.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{"database:\n  url: \"X", "X: 1", "database: {url: X", "- X", "a: &b X\nc: *d", "outbox:\n\tX", "%YAML X\n---\n", "? X\n: Y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		problems := parse("postrider.yaml", []byte(text)).problems
		for _, err := range problems {
			if strings.ContainsAny(err.Error(), "\x1b\x00\x07") {
				t.Errorf("control characters in %q", err)
			}
		}
	})
}
