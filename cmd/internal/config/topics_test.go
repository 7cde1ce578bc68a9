package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/relay"
)

const threeRules = `outbox:
  max_attempts: 7
topics:
  - match: orders.*
    max_attempts: 20
    retry_max_ms: 300000
    after_last_attempt: halt_key
  - match: "*.eu"
    max_attempts: 3
    dlq_topic: dead.eu
    max_message_bytes: 8192
  - match: orders.eu
    route_dead_letter_after_seconds: 3600
    max_age_seconds: 86400
    commit_order: true
    storm_events: 0
    storm_window_seconds: 10
    retry_base_ms: "250"
`

// Rules apply from top to bottom, each to what it names, and the later one wins.
func TestTopicSettings(t *testing.T) {
	t.Parallel()
	c, err := Load(From{File: write(t, threeRules), Environ: []string{"OUTBOX_STORM_EVENTS=50"}})
	if err != nil {
		t.Fatal(err)
	}
	plain := c.TopicSettings("plain")
	want := relay.TopicSettings{AfterLastAttempt: relay.PolicyContinue, DLQTopic: "postrider.dlq", MaxMessageBytes: 1048588, BreakerEvents: 50, BreakerWindow: time.Minute}
	want.Retry.MaxAttempts, want.Retry.Base, want.Retry.Max, want.Retry.Jitter = 7, time.Second, time.Minute, 0.2
	if plain != want {
		t.Errorf("no rule: %+v, want %+v", plain, want)
	}
	us := want
	us.Retry.MaxAttempts, us.Retry.Max, us.AfterLastAttempt = 20, 5*time.Minute, relay.PolicyHaltKey
	if got := c.TopicSettings("orders.us"); got != us {
		t.Errorf("one rule: %+v, want %+v", got, us)
	}
	eu := us
	eu.Retry.MaxAttempts, eu.DLQTopic, eu.MaxMessageBytes = 3, "dead.eu", 8192
	eu.RouteDeadLetterAfter, eu.MaxAge, eu.CommitOrder = time.Hour, 24*time.Hour, true
	eu.BreakerEvents, eu.BreakerWindow, eu.Retry.Base = -1, 10*time.Second, 250*time.Millisecond
	if got := c.TopicSettings("orders.eu"); got != eu {
		t.Errorf("three rules: %+v, want %+v", got, eu)
	}
	if got := c.TopicSettings("plain"); got != want {
		t.Errorf("asking for one topic changed another: %+v", got)
	}
	if got := c.DLQTopics(); !slices.Equal(got, []string{"postrider.dlq", "dead.eu"}) {
		t.Errorf("dead-letter topics %q", got)
	}
	for _, topic := range []string{"plain", "orders.us", "orders.eu"} {
		if err := c.TopicSettings(topic).Validate(); err != nil {
			t.Error(err)
		}
	}
	if s := c.String(); !strings.Contains(s, "topics: *.eu max_attempts=3 dlq_topic=dead.eu max_message_bytes=8192\n") {
		t.Errorf("the settings do not show the rule:\n%s", s)
	}
}

func TestExplainTopic(t *testing.T) {
	t.Parallel()
	path := write(t, threeRules)
	c, err := Load(From{File: path, Environ: []string{"DLQ_TOPIC=dead"}, Flags: map[string]string{"kafka.max_message_bytes": "5000"}})
	if err != nil {
		t.Fatal(err)
	}
	for topic, want := range map[string]map[string]Setting{
		"orders.us": {
			"max_attempts":         {Value: 20, Text: "20", Origin: path + ":5, topics: orders.*"},
			"retry_max_ms":         {Value: int64(300000), Text: "300000", Origin: path + ":6, topics: orders.*"},
			"dlq_topic":            {Value: "dead", Text: "dead", Origin: "environment variable DLQ_TOPIC, dlq.topic"},
			"max_message_bytes":    {Value: 5000, Text: "5000", Origin: "flag --kafka-max-message-bytes, kafka.max_message_bytes"},
			"storm_window_seconds": {Value: int64(60), Text: "60", Origin: "default, outbox.storm_window_seconds"},
		},
		"orders.eu": {
			"max_attempts": {Value: 3, Text: "3", Origin: path + ":9, topics: *.eu"},
			"commit_order": {Value: true, Text: "true", Origin: path + ":15, topics: orders.eu"},
			"storm_events": {Value: 0, Text: "0", Origin: path + ":16, topics: orders.eu"},
		},
		"other": {"max_attempts": {Value: 7, Text: "7", Origin: path + ":2, outbox.max_attempts"}},
	} {
		got := c.ExplainTopic(topic)
		if len(got) != len(TopicKeys()) {
			t.Errorf("%d settings, want %d", len(got), len(TopicKeys()))
		}
		for _, s := range got {
			w, asked := want[s.Name]
			w.Name = s.Name
			if asked && s != w {
				t.Errorf("%s: %+v, want %+v", topic, s, w)
			}
		}
	}
	if rules := c.RulesFor("orders.us"); len(rules) != 1 || rules[0].Match() != "orders.*" || rules[0].Origin() != path+":4" {
		t.Errorf("rules %v", rules)
	}
}

func TestMistakesInTopics(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		want []string
		not  string
	}{
		"not a list":          {file: "topics:\n  orders: {max_attempts: 1}\n", want: []string{"postrider.yaml:2", "topics must be a list of rules"}},
		"misspelt section":    {file: "topic:\n  - match: a\n", want: []string{"postrider.yaml:1", "unknown section topic; the nearest section is topics"}},
		"no mapping":          {file: "topics:\n  - orders\n", want: []string{"postrider.yaml:2", "rule 1 of topics must be a mapping"}, not: "no match"},
		"empty":               {file: "topics:\n  - match: a\n    max_attempts: 1\n  -\n", want: []string{"postrider.yaml:4", "rule 2 of topics is empty"}},
		"no match":            {file: "topics:\n  - max_attempts: 3\n    commit_order: true\n", want: []string{"postrider.yaml:2", "rule 1 of topics has no match"}},
		"empty match":         {file: "topics:\n  - match: ''\n    max_attempts: 3\n", want: []string{"postrider.yaml:2", "must not be empty"}, not: "no match"},
		"match is null":       {file: "topics:\n  - match:\n    max_attempts: 3\n", want: []string{"postrider.yaml:2", "match of rule 1 of topics must be a plain value"}},
		"unquoted star":       {file: "topics:\n  - match: *.eu\n    max_attempts: 3\n", want: []string{"postrider.yaml:2", "quote a text that begins with *"}},
		"malformed glob":      {file: "topics:\n  - match: orders.[ab]\n    max_attempts: 3\n", want: []string{"postrider.yaml:2", `"orders.[ab]"`, "'['", "* and ? are the only wildcards"}},
		"two stars":           {file: "topics:\n  - match: orders.**\n    max_attempts: 3\n", want: []string{"postrider.yaml:2", "two * in a row"}},
		"unknown key":         {file: "topics:\n  - match: a\n    max_atempts: 3\n", want: []string{"postrider.yaml:3", "unknown key max_atempts in rule 1 of topics; the nearest key is max_attempts"}, not: "sets nothing"},
		"key of a section":    {file: "topics:\n  - match: a\n    batch_size: 3\n", want: []string{"postrider.yaml:3", "unknown key batch_size"}},
		"set twice":           {file: "topics:\n  - match: a\n    max_attempts: 3\n    max_attempts: 4\n", want: []string{"postrider.yaml:4", "rule 1 of topics: max_attempts is set twice, first in line 3"}},
		"match twice":         {file: "topics:\n  - match: a*\n    max_attempts: 3\n  - match: b\n    max_attempts: 3\n  - match: 'a*'\n    commit_order: true\n", want: []string{"postrider.yaml:6", "the rule for a* is set twice, first in line 2"}},
		"sets nothing":        {file: "topics:\n  - match: a\n", want: []string{"postrider.yaml:2", "rule 1 of topics, for a, sets nothing", "max_attempts"}},
		"sets null":           {file: "topics:\n  - match: a\n    max_attempts:\n", want: []string{"postrider.yaml:2", "sets nothing"}},
		"out of range":        {file: "topics:\n  - match: a\n    max_attempts: 0\n", want: []string{"postrider.yaml:3", "max_attempts of rule 1 of topics", `"0"`, "from 1 to 1000"}, not: "sets nothing"},
		"too small a message": {file: "topics:\n  - match: a\n    max_message_bytes: 4095\n", want: []string{"postrider.yaml:3", `"4095"`, "from 4096 to"}},
		"policy":              {file: "topics:\n  - match: a\n    after_last_attempt: stop\n", want: []string{"postrider.yaml:3", `"stop"`, "continue, halt_key"}},
		"dead-letter topic":   {file: "topics:\n  - match: a\n    dlq_topic: a*\n", want: []string{"postrider.yaml:3", `"a*"`, "Kafka topic name"}},
		"a list for a number": {file: "topics:\n  - match: a\n    max_attempts: [3]\n", want: []string{"postrider.yaml:3", "must be a plain value"}},
		"retry order":         {file: "topics:\n  - match: a\n    retry_base_ms: 2000\n    retry_max_ms: 1000\n", want: []string{"for the topic a retry_max_ms is 1000", "postrider.yaml:4", "retry_base_ms, which is 2000", "postrider.yaml:3"}},
		"with the section":    {file: "topics:\n  - match: '*.eu'\n    retry_base_ms: 61000\n", want: []string{"retry_max_ms is 60000 (outbox.retry_max_ms, default)", "61000", "postrider.yaml:3"}},
		"with another rule":   {file: "topics:\n  - match: a*\n    retry_base_ms: 50000\n  - match: '*b'\n    retry_max_ms: 2000\n", want: []string{"for the topic ab retry_max_ms is 2000", "postrider.yaml:5", "50000", "postrider.yaml:3"}},
		"merge key":           {file: "topics:\n  - &x\n    match: a\n    max_attempts: 1\n  - <<: *x\n    match: b\n", want: []string{"merge keys"}},
		"all at once":         {file: "topics:\n  - match: a\n    max_attempts: 0\n    foo: 1\n  - match: '['\n  - match: b\n    commit_order: perhaps\n", want: []string{":3:", ":4:", ":5:", ":7:"}},
		"secret":              {file: "topics:\n  - match: postgres://u:" + sentinel + "@h/d\n    max_attempts: postgres://u:" + sentinel + "@h/d\n", want: []string{"postrider.yaml:2", "postrider.yaml:3"}, not: sentinel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, From{File: write(t, c.file)}, c.want, c.not)
		})
	}
}

// Rules whose delays do not fit the sections, but each other, are right, whatever their order.
func TestRetryOfRulesTogether(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		"topics:\n  - {match: '*', retry_max_ms: 100000}\n  - {match: a*, retry_base_ms: 90000}\n",
		"topics:\n  - {match: a*, retry_base_ms: 90000}\n  - {match: '*', retry_max_ms: 100000}\n",
		"topics:\n  - {match: a.*, retry_base_ms: 50000}\n  - {match: b.*, retry_max_ms: 2000}\n",
	} {
		if _, err := Load(From{File: write(t, file)}); err != nil {
			t.Errorf("%s%v", file, err)
		}
	}
}

// Whatever rules are accepted, the engine accepts the settings of every topic.
func TestAcceptedRulesGiveValidSettings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		text.WriteString("topics:\n")
		for _, glob := range rapid.SliceOfNDistinct(rapid.StringMatching(`[ab]{0,2}\*?[ab]{1,2}`), 1, 5, rapid.ID[string]).Draw(t, "globs") {
			text.WriteString("  - match: '" + glob + "'\n    commit_order: true\n")
			for _, name := range []string{"retry_base_ms", "retry_max_ms"} {
				if value := rapid.SampledFrom([]string{"", "1", "500", "70000", "86400000"}).Draw(t, name); value != "" {
					text.WriteString("    " + name + ": " + value + "\n")
				}
			}
		}
		f := parse("postrider.yaml", []byte(text.String()))
		c, err := Load(From{})
		if err != nil || len(f.problems) > 0 {
			t.Fatal(err, f.problems)
		}
		c.Topics = f.rules
		topic := rapid.StringMatching(`[ab]{1,5}`).Draw(t, "topic")
		if own := c.TopicSettings(topic); own.Validate() != nil {
			t.Fatalf("%s%s: %v", text.String(), topic, own.Validate())
		}
		// A mistake that is reported is one that a topic has.
		if len(c.checkRetry()) > 0 && !strings.Contains(c.checkRetry()[0].Error(), "for the topic ") {
			t.Fatal(c.checkRetry())
		}
	})
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	c, err := Load(From{Environ: []string{"KAFKA_MAX_MESSAGE_BYTES=5000"}, File: write(t, `kafka: {brokers: h:1}
topics:
  - match: postrider.dlq
    max_attempts: 1
  - match: dead.eu
    max_message_bytes: 5001
  - match: orders.*
    dlq_topic: dead.eu
    max_message_bytes: 5000
  - match: "*"
    commit_order: true
`)})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(c.Warnings(), "\n")
	for _, part := range []string{":3: the rule is for postrider.dlq, which is a dead-letter topic", ":5: the rule is for dead.eu",
		":6: max_message_bytes of the rule for dead.eu is 5001 and changes nothing", "environment variable KAFKA_MAX_MESSAGE_BYTES", "database.url is not set"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in:\n%s", part, got)
		}
	}
	if n := len(c.Warnings()); n != 4 {
		t.Errorf("%d warnings:\n%s", n, got)
	}
}

func TestSettingsSayTheirOrigin(t *testing.T) {
	t.Parallel()
	path := write(t, "outbox:\n  dispatches: 2\n  batch_size: 5\n")
	c, err := Load(From{File: path, Environ: []string{"A2A_OUTBOX_BATCH_SIZE=6", "DATABASE_URL=postgres://u:" + sentinel + "@h/d"},
		Flags: map[string]string{"http.address": ":1"}, Defaults: map[string]string{"log.format": "text"}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Setting{
		"outbox.dispatches": {Value: 2, Text: "2", Origin: path + ":2"},
		"outbox.batch_size": {Value: 6, Text: "6", Origin: "environment variable A2A_OUTBOX_BATCH_SIZE"},
		"http.address":      {Value: ":1", Text: ":1", Origin: "flag --http"},
		"log.format":        {Value: "text", Text: "text", Origin: "default"},
		"database.url":      {Value: "postgres://u:xxxxx@h:5432/d", Text: "postgres://u:xxxxx@h:5432/d", Origin: "environment variable DATABASE_URL"},
		"kafka.client_id":   {Value: "postrider", Text: "postrider", Origin: "default"},
	}
	settings := c.Settings()
	if len(settings) != len(Keys()) {
		t.Errorf("%d settings of %d keys", len(settings), len(Keys()))
	}
	for _, s := range settings {
		if s.Name == "kafka.brokers" && s.Origin != "not set" {
			t.Errorf("%+v", s)
		}
		if w, asked := want[s.Name]; asked && (s.Value != w.Value || s.Text != w.Text || s.Origin != w.Origin) {
			t.Errorf("%+v, want %+v", s, w)
		}
	}
}

// Every key of a rule has its default in a section.
func TestTopicKeysAreKeys(t *testing.T) {
	t.Parallel()
	for _, name := range TopicKeys() {
		k, ok := topicKey(name)
		if !ok || k.Default == "" {
			t.Errorf("%s has no key with a default", name)
		}
		if k.Name != name && k.Section+"_"+k.Name != name {
			t.Errorf("%s is called %s in its section", name, k)
		}
	}
}

// Every dead-letter topic that an event may go to is Postrider's own, and that of lifecycle events; a topic of events is not.
func TestOwnTopics(t *testing.T) {
	t.Parallel()
	c, err := Load(From{
		File:  write(t, "topics:\n  - match: orders.*\n    dlq_topic: dead.orders\n  - match: '*.eu'\n    dlq_topic: dead.eu\n  - match: orders.eu\n    max_attempts: 3\n"),
		Flags: map[string]string{"dlq.topic": "dead", "tasks.lifecycle_topic": "life", "collector.topics": "theirs-dlt"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"dead": "dead letters", "dead.orders": "dead letters", "dead.eu": "dead letters", "postrider.consumer.dlq": "dead letters of consumers", "life": "lifecycle events"}
	if got := c.OwnTopics(); !maps.Equal(got, want) {
		t.Errorf("the own topics are %v, want %v", got, want)
	}
}

// What is written down about attempts says of every topic what the relay goes by.
func TestAttemptRules(t *testing.T) {
	t.Parallel()
	c, err := Load(From{
		File:  write(t, "topics:\n  - match: orders.*\n    max_attempts: 20\n  - match: '*.eu'\n    dlq_topic: dead.eu\n  - match: orders.?u\n    max_attempts: 3\n"),
		Flags: map[string]string{"outbox.max_attempts": "7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	topics, attempts := c.AttemptRules()
	for topic, want := range map[string]int{"orders": 7, "orders.de": 20, "orders.eu": 3, "ordersxeu": 7, "my.orders.eu": 7, "orders.eu.x": 20} {
		got := 0
		for i, expression := range topics {
			if regexp.MustCompile(expression).MatchString(topic) {
				got = attempts[i]
			}
		}
		if relays := c.TopicSettings(topic).Retry.MaxAttempts; got != want || relays != want {
			t.Errorf("the events of %s have %d attempts, the relay goes by %d, want %d", topic, got, relays, want)
		}
	}
}

// No topic's events wait longer for a retry than is said.
func TestLongestRetry(t *testing.T) {
	t.Parallel()
	c, err := Load(From{File: write(t, threeRules)})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.LongestRetry(); got != 6*time.Minute {
		t.Errorf("the longest retry is %v, want five minutes and a fifth", got)
	}
	for _, topic := range []string{"plain", "orders.us", "orders.eu"} {
		if d := c.TopicSettings(topic).Retry.Delay(1000, 1); d > c.LongestRetry() {
			t.Errorf("%s waits %v", topic, d)
		}
	}
	if c, err = Load(From{Flags: map[string]string{"outbox.retry_base_ms": "90000", "outbox.retry_max_ms": "100000"}}); err != nil || c.LongestRetry() != 2*time.Minute {
		t.Errorf("the longest retry is %v, %v, want 2m", c.LongestRetry(), err)
	}
}
