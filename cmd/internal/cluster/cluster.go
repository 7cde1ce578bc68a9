package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/kgolog"
)

// ErrBrokers is wrapped by errors about brokers that do not answer, or refuse.
var ErrBrokers = errors.New("the brokers do not say it; postrider doctor looks at them")

// Config is what a Cluster needs.
type Config struct {
	// Settings are the settings of the installation, which name topics. Required.
	Settings config.Config
	// Database has the outbox, whose events name topics. Required.
	Database *pgxpool.Pool
	// Options are of the client: TLS and the login. Defaults to none.
	Options []kgo.Opt
	// Logger has the errors of the client as they are. Defaults to one that discards.
	Logger *slog.Logger
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
}

const (
	dialTimeout  = 3 * time.Second
	retryTimeout = 5 * time.Second
)

// Cluster asks the brokers. Each call asks them anew: its callers keep the answer for a while. It is safe for concurrent
// use.
type Cluster struct {
	cfg      Config
	patterns *dlq.TopicPatterns
	client   *kgo.Client
	admin    *kadm.Client

	mu     sync.Mutex
	behind map[groupPartition]standing
}

// New connects when it is first asked.
func New(cfg Config) (*Cluster, error) {
	if cfg.Database == nil {
		return nil, errors.New("cluster: Database is required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	patterns, err := dlq.NewTopicPatterns(cfg.Settings.Collector.Patterns)
	if err != nil {
		return nil, fmt.Errorf("collector.patterns: %w", err)
	}
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.DialTimeout(dialTimeout), kgo.RetryTimeout(retryTimeout), kgo.RequestRetries(5)},
		append(slices.Clone(cfg.Options), kgo.SeedBrokers(cfg.Settings.Kafka.Brokers...), kgo.ClientID(cfg.Settings.Kafka.ClientID+"-looking"))...)...)
	if err != nil {
		return nil, fmt.Errorf("make a client of Kafka: %w", err)
	}
	return &Cluster{cfg: cfg, patterns: patterns, client: client, admin: kadm.NewClient(client), behind: map[groupPartition]standing{}}, nil
}

// Close ends the connections.
func (c *Cluster) Close() { c.client.Close() }

// refused is the error about brokers that do not answer, or refuse what they were asked to do.
func (c *Cluster) refused(doing string, err error) error {
	return fmt.Errorf("%w: %s: %s", ErrBrokers, doing, c.inShort(doing, err))
}

// inShort is an error of the client for people. What it leaves out is logged.
func (c *Cluster) inShort(doing string, err error) string {
	if errors.Is(err, errNotDescribed) {
		return err.Error()
	}
	if !errors.As(err, new(*kerr.Error)) && !errors.Is(err, context.Canceled) {
		c.cfg.Logger.Warn("the brokers do not answer", "component", "cluster", "doing", doing, "err", err)
	}
	return kgolog.InShort(err)
}

// Topics describes the topics that Postrider uses, by name.
func (c *Cluster) Topics(ctx context.Context) (api.Topics, error) {
	at := c.cfg.Now()
	listed, err := c.admin.ListTopics(ctx) // without Kafka's own
	if err != nil {
		return api.Topics{}, c.refused("list topics", err)
	}
	waits, err := doctor.EventTopics(ctx, c.cfg.Database)
	if err != nil {
		return api.Topics{}, fmt.Errorf("read the topics of events from the outbox: %w", err)
	}
	uses := c.uses(slices.Sorted(maps.Keys(waits)), listed.Names())
	all := make([]api.Topic, 0, len(uses))
	for name, of := range uses {
		t := c.describe(name, of, listed)
		t.Waits = waits[name]
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b api.Topic) int { return strings.Compare(a.Name, b.Name) })
	return api.Topics{List: api.ListOf(all, ""), LookedAt: api.Time(at)}, nil
}

// uses are what Postrider uses topics for, by their names: topics of the settings and of events, and of the existing topics the
// ones that patterns choose and retry topics.
func (c *Cluster) uses(ofEvents, there []string) map[string][]api.TopicUse {
	uses := map[string][]api.TopicUse{}
	add := func(use api.TopicUse, names ...string) {
		for _, name := range names {
			if !slices.Contains(uses[name], use) {
				uses[name] = append(uses[name], use)
			}
		}
	}
	add(api.UsedForEvents, ofEvents...)
	settings := c.cfg.Settings
	add(api.UsedForDeadLetters, settings.DLQTopics()...)
	add(api.UsedForLifecycle, settings.Tasks.LifecycleTopic)
	add(api.UsedForCollecting, settings.CollectedTopics()...)
	sources := map[string]bool{}
	for name := range uses {
		sources[name] = true
	}
	for _, name := range there {
		if c.patterns.Fits(name) && name != settings.Tasks.LifecycleTopic {
			add(api.UsedForCollecting, name)
		}
		if isRetry(name, sources) {
			add(api.UsedForRetries, name)
		}
	}
	return uses
}

// isRetry reports whether a topic has the name of a retry topic of one of the sources: SOURCE.GROUP.retry or
// SOURCE.GROUP.retry.DELAY.
func isRetry(name string, sources map[string]bool) bool {
	before, behind, found := strings.Cut(name+".", ".retry.")
	if !found || strings.Contains(strings.TrimSuffix(behind, "."), ".") {
		return false
	}
	for i := range before {
		if before[i] == '.' && i > 0 && i < len(before)-1 && sources[before[:i]] {
			return true
		}
	}
	return false
}

// describe is a topic as the brokers list it.
func (c *Cluster) describe(name string, uses []api.TopicUse, listed kadm.TopicDetails) api.Topic {
	t := api.Topic{Name: name, Uses: uses}
	detail, there := listed[name]
	if !there {
		return t
	}
	t.Exists = true
	if detail.Err != nil {
		t.Problem = api.OrNull(c.inShort("describe the topic "+name, detail.Err))
		return t
	}
	t.Partitions = len(detail.Partitions)
	for _, p := range detail.Partitions {
		if t.Replicas == 0 || len(p.Replicas) < t.Replicas {
			t.Replicas = len(p.Replicas)
		}
		if p.Leader < 0 {
			t.Leaderless++
		}
		if len(p.ISR) < len(p.Replicas) {
			t.UnderReplicated++
		}
	}
	return t
}
