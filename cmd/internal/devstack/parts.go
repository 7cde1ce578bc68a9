package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/demo"
	"github.com/postrider/postrider/internal/pgserver"
)

// startPostgres runs the PostgreSQL that is installed here, or one that is fetched once.
func startPostgres(ctx context.Context, o Options) (*pgserver.Server, error) {
	binaries, err := pgserver.Obtain(ctx, func(d pgserver.Download) { fmt.Fprintf(o.Out, "postrider: %s\n", d) })
	if err != nil {
		return nil, err
	}
	options := pgserver.Options{Binaries: binaries, Port: o.PostgresPort, PreferredPort: DefaultPostgresPort, Settings: map[string]string{}}
	if o.DataDir != "" {
		options.Dir = filepath.Join(o.DataDir, "postgres")
	} else {
		options.Settings["fsync"] = "off" // nothing of it outlives this process
	}
	server, err := pgserver.Start(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("start the embedded PostgreSQL: %w", err)
	}
	return server, nil
}

// startKafka runs the broker, on a free port where the port is not given and the default one is taken.
func startKafka(ctx context.Context, o Options) (*Broker, error) {
	options := BrokerOptions{Dir: brokerDir(o), Port: cmp.Or(o.KafkaPort, DefaultKafkaPort), Log: o.Logger.With("component", "broker")}
	broker, err := StartBroker(ctx, options)
	if err != nil && o.KafkaPort == 0 && errors.Is(err, syscall.EADDRINUSE) {
		options.Port = 0
		broker, err = StartBroker(ctx, options)
	}
	return broker, err
}

// brokerDir is where the broker keeps its data; empty for memory.
func brokerDir(o Options) string {
	if o.DataDir == "" {
		return ""
	}
	return filepath.Join(o.DataDir, "kafka")
}

// CreateTopics creates the topics that do not exist, with as many partitions and replicas as the broker gives them.
func CreateTopics(ctx context.Context, client *kgo.Client, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	results, err := kadm.NewClient(client).CreateTopics(ctx, -1, -1, nil, topics...)
	if err != nil {
		return fmt.Errorf("create the topics %s: %w", strings.Join(topics, ", "), err)
	}
	for _, r := range results.Sorted() {
		if r.Err != nil && !errors.Is(r.Err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create the topic %s: %w", r.Topic, r.Err)
		}
	}
	return nil
}

// howToLook is for the person at the terminal.
func howToLook(o Options, http, database, broker, key, link string) string {
	topic := "my.topic"
	if o.Demo {
		topic = demo.OrdersTopic
	}
	end := "Ctrl-C stops everything; then " + o.kept() + "."
	ask := ""
	if key != "" {
		ask = fmt.Sprintf("\n  Ask the API              curl -H 'X-API-Key: %s' http://%s/api/v1/dlq", key, http)
	}
	console := ""
	if link != "" {
		console = fmt.Sprintf("\n  Open the web console     http://%s/login?link=%s", http, link)
	}
	return fmt.Sprintf(`%[8]s
  Look into the database   psql '%[1]s'
  Write an event           psql '%[1]s' -c "select postrider.outbox_publish('%[3]s', 'key-1', '{\"hello\": \"world\"}')"
  Read the topic           kcat -b %[2]s -t %[3]s -C -e
  See what waits           %[6]s outbox status --database-url '%[1]s'
  See what failed          %[6]s dlq list --database-url '%[1]s'
  Metrics, readiness       curl http://%[4]s/metrics, curl http://%[4]s/readyz%[7]s

  For development only: one broker, nothing replicated, a superuser's password on the screen.
  %[5]s

`, database, broker, topic, http, end, os.Args[0], ask, console)
}
