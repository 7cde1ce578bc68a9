package soak

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/migrations"
	"github.com/postrider/postrider/migrations/pgserver"
	"github.com/postrider/postrider/relay/history"
	"github.com/postrider/postrider/relay/kafka/kafkatest"
	"github.com/postrider/postrider/relay/kafka/kafkatest/kafkajars"
	"github.com/postrider/postrider/relay/postgres/pgproxy"
)

// relays is how many relay processes there are at all times.
const relays = 2

// stage is what faults are played on: a database server and a broker of its own, two relays and a
// collector under supervisors, and a link between each of them and each server.
type stage struct {
	t      *testing.T
	pace   pace
	broker string // what it is, for people

	pgOptions pgserver.Options
	mu        sync.Mutex
	pg        *pgserver.Server
	pool      *pgxpool.Pool // goes round all links

	jars   *kafkajars.Broker // nil on kfake
	direct []kgo.Opt         // clients with these go round all links
	admin  *admin

	// By process: the relays, then the collector. On kfake the links to Kafka are one and the same.
	pgLinks, kafkaLinks []*Link
	commits             []*pgproxy.Proxy
	writersCommits      *pgproxy.Proxy
	actors              []*actor
	stop                func()

	topics    topics
	collected atomic.Pointer[kadm.TopicDetail] // the dead-letter topic
	// lives are what the mortal topic held whenever it was deleted; what it acknowledged within destroyed
	// went with it.
	lives     [][]*kgo.Record
	destroyed []history.Fault
}

// topics are where the workload writes.
type topics struct {
	plain  []string
	strict string // with a low message limit, for poison that only the broker refuses
	mortal string // deleted and created again
	dlq    string
}

func (n topics) all() []string { return append(append([]string{}, n.plain...), n.strict, n.mortal) }

// strictLimit is the message limit of the strict topic.
const strictLimit = 10_000

// newStage starts everything but the relays. Without Java it returns nil, and says so.
func newStage(t *testing.T, real bool, p pace) *stage {
	t.Helper()
	s := &stage{t: t, pace: p}
	for range relays + 1 {
		pg := s.link()
		s.pgLinks = append(s.pgLinks, pg)
	}
	if real {
		if !s.startKafka() {
			return nil
		}
	} else {
		s.startKfake()
	}
	s.startPostgres()
	s.admin = newAdmin(t, s.direct)
	s.topics = topics{plain: []string{"plain-a", "plain-b"}, strict: "strict", mortal: "mortal", dlq: "dead"}
	for _, name := range append(s.topics.all(), s.topics.dlq) {
		if err := s.createTopic(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	details, err := s.admin.client.ListTopics(t.Context(), s.topics.dlq)
	if err != nil {
		t.Fatal(err)
	}
	dlq := details[s.topics.dlq]
	s.collected.Store(&dlq)
	return s
}

func (s *stage) createTopic(ctx context.Context, name string) error {
	configs := map[string]string{"message.timestamp.type": "LogAppendTime"}
	if name == s.topics.strict {
		configs["max.message.bytes"] = fmt.Sprint(strictLimit)
	}
	return s.admin.create(ctx, name, 3, configs)
}

func (s *stage) link() *Link {
	l, err := NewLink()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(l.Close)
	return l
}

func (s *stage) startKafka() bool {
	var ports []int
	for range relays + 1 {
		l := s.link()
		s.kafkaLinks, ports = append(s.kafkaLinks, l), append(ports, l.Port())
	}
	log := newLog(s.t, "kafka")
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	b, err := kafkajars.Start(ctx, kafkajars.Options{Version: os.Getenv(kafkatest.EnvVersion), Proxies: ports, Log: log,
		JVMArgs: []string{"-XX:TieredStopAtLevel=1"}})
	if errors.Is(err, kafkajars.ErrUnavailable) {
		return false
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = b.Close() })
	for i, l := range s.kafkaLinks {
		l.Aim(b.Behind(i))
	}
	s.jars, s.broker = b, "Apache Kafka "+b.Version()
	s.direct = []kgo.Opt{kgo.SeedBrokers(b.Addr())}
	return true
}

// startKfake puts one link in front of a fake cluster, which tells its clients the link's address.
func (s *stage) startKfake() {
	l := s.link()
	for range relays + 1 {
		s.kafkaLinks = append(s.kafkaLinks, l)
	}
	var behind string
	b := kafkatest.Kfake(s.t, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		inner, err := net.Listen(network, address)
		if err != nil {
			return nil, err
		}
		behind = inner.Addr().String()
		l.Aim(behind)
		return advertised{inner, l.listener.Addr()}, nil
	}))
	b.Cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster.KeepControl()
		stampOnAppend(req.(*kmsg.ProduceRequest), s.collected.Load())
		return nil, nil, false
	})
	s.broker = "kfake"
	s.direct = []kgo.Opt{kgo.SeedBrokers(b.Addrs...), kgo.DisableFetchCRCValidation(), kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, behind)
	})}
}

// stampOnAppend has kfake give the timestamps: it does not know the topic's setting for it, and goes by the
// attributes of each batch. It then keeps the old checksum, so the topic that the collector reads is left
// alone, and our readers do not ask.
func stampOnAppend(req *kmsg.ProduceRequest, except *kadm.TopicDetail) {
	const crc, attributes, byBroker = 17, 21, 0x08
	for _, topic := range req.Topics {
		if topic.Topic == except.Topic || topic.TopicID == except.ID {
			continue
		}
		for _, p := range topic.Partitions {
			if len(p.Records) > attributes+2 {
				p.Records[attributes+1] |= byBroker
				binary.BigEndian.PutUint32(p.Records[crc:], crc32.Checksum(p.Records[attributes:], crc32.MakeTable(crc32.Castagnoli)))
			}
		}
	}
}

// advertised is a listener that names another address as its own.
type advertised struct {
	net.Listener
	addr net.Addr
}

func (a advertised) Addr() net.Addr { return a.addr }

func (s *stage) startPostgres() {
	dir, err := os.MkdirTemp(pgserver.MemoryDir(), "postrider-soak-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // started by root, PostgreSQL runs as somebody else
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, err := kafkajars.FreePort() // one that stays free while the server is down
	if err != nil {
		s.t.Fatal(err)
	}
	log := newLog(s.t, "postgres")
	// The operating system does not crash here, so what was written is there without fsync.
	s.pgOptions = pgserver.Options{Dir: dir, Port: port, Log: log, Settings: map[string]string{
		"fsync": "off", "full_page_writes": "off", "max_connections": "200", "shared_buffers": "128MB",
	}}
	if s.pg, err = pgserver.Start(s.t.Context(), s.pgOptions); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := s.pg.Stop(ctx); err != nil {
			s.t.Error(err)
		}
	})
	if err := migrated(s.t.Context(), s.pg.URL()); err != nil {
		s.t.Fatal(err)
	}
	for i, l := range s.pgLinks {
		s.commits = append(s.commits, pgproxy.Start(s.t, s.pg.URL()))
		l.Aim(hostOf(s.t, s.commits[i].URL()))
	}
	s.writersCommits = pgproxy.Start(s.t, s.pg.URL())
	s.pool = s.openPool(s.pg.URL())
}

func migrated(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	all, err := migrations.All()
	if err == nil {
		_, err = migrations.New(conn, all).Up(ctx)
	}
	return err
}

func (s *stage) openPool(url string) *pgxpool.Pool {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		s.t.Fatal(err)
	}
	cfg.MaxConns = 20
	cfg.ConnConfig.ConnectTimeout = 2 * time.Second
	pool, err := pgxpool.NewWithConfig(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(pool.Close)
	return pool
}

// through is the server's URL by way of an address.
func (s *stage) through(address string) string {
	u, err := url.Parse(s.pg.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	u.Host = address
	return u.String()
}

func hostOf(t *testing.T, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// restartPostgres ends the server, in order or as a crash, and starts it again after a time.
func (s *stage) restartPostgres(crash bool, down time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	end := s.pg.Stop
	if crash {
		end = s.pg.Crash
	}
	if err := end(ctx); err != nil {
		return err
	}
	rest(down)
	var err error
	s.pg, err = pgserver.Start(ctx, s.pgOptions)
	return err
}

// perform starts the relays and the collector under their supervisors.
func (s *stage) perform(victim, product string) {
	for i := range relays + 1 {
		env := append(os.Environ(), "DATABASE_URL="+s.through(s.pgLinks[i].Addr()), "KAFKA_BROKERS="+s.kafkaLinks[i].Addr())
		a := &actor{name: fmt.Sprintf("relay-%d", i)}
		if i < relays {
			env = append(env, "VICTIM_CONTROL=yes", "VICTIM_DLQ="+s.topics.dlq,
				fmt.Sprintf("VICTIM_PUBLISH_TIMEOUT_MS=%d", s.pace.publish.Milliseconds()),
				fmt.Sprintf("VICTIM_IDLE_TRANSACTION_MS=%d", s.pace.idle.Milliseconds()))
			a.command = func() *exec.Cmd { return withEnv(exec.Command(victim), env) }
		} else {
			a.name, a.mayExit = "collector", true
			env = append(env, "DLQ_TOPIC="+s.topics.dlq, "LOG_LEVEL=warn")
			a.command = func() *exec.Cmd {
				return withEnv(exec.Command(product, "serve", "--roles", "collector,http", "--http", "127.0.0.1:0"), env)
			}
		}
		a.log = newLog(s.t, a.name)
		s.actors = append(s.actors, a)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, a := range s.actors {
		running.Go(func() { a.supervise(ctx) })
	}
	var once sync.Once
	s.stop = func() { once.Do(func() { cancel(); running.Wait() }) }
	s.t.Cleanup(s.stop)
	s.await("the processes are there", func() bool {
		for _, a := range s.actors {
			if cmd, _, _ := a.now(false); cmd == nil {
				return false
			}
		}
		return true
	})
}

func withEnv(cmd *exec.Cmd, env []string) *exec.Cmd {
	cmd.Env = env
	return cmd
}

func (s *stage) await(what string, done func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			s.t.Fatalf("not within 30 s: %s", what)
		}
		rest(10 * time.Millisecond)
	}
}

// failures are what went wrong with the processes that nobody did on purpose.
func (s *stage) failures() error {
	var all []error
	for _, a := range s.actors {
		all = append(all, a.failure())
	}
	return errors.Join(all...)
}

// starts says how often each process was started.
func (s *stage) starts() string {
	var out []string
	for _, a := range s.actors {
		out = append(out, fmt.Sprintf("%s %d", a.name, a.starts))
	}
	return strings.Join(out, ", ")
}

// rest is the time that something is left as it is.
func rest(d time.Duration) { <-time.After(d) }
