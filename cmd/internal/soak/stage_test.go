package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/history"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
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
	diedAt              map[string]int // how often a relay died at each step
	stop                func()

	topics    topics
	collected atomic.Pointer[kadm.TopicDetail] // the dead-letter topic
	// lives are what the mortal topic held whenever it was deleted; what it acknowledged within destroyed, as the
	// relays noted in a file in folder, went with it.
	folder    string
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

// newStage starts everything but the relays.
func newStage(t *testing.T, real bool, p pace) *stage {
	t.Helper()
	s := &stage{t: t, pace: p, folder: t.TempDir(), diedAt: map[string]int{}}
	for range relays + 1 {
		pg := s.link()
		s.pgLinks = append(s.pgLinks, pg)
	}
	if real {
		s.startKafka()
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

// acks is the file in which the relays note what the mortal topic acknowledged.
func (s *stage) acks() string { return filepath.Join(s.folder, "acks") }

func (s *stage) link() *Link {
	l, err := NewLink()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(l.Close)
	return l
}

// perform starts the relays and the collector under their supervisors.
func (s *stage) perform(crashchild, product string) {
	for i := range relays + 1 {
		env := append(os.Environ(), "DATABASE_URL="+s.through(s.pgLinks[i].Addr()), "KAFKA_BROKERS="+s.kafkaLinks[i].Addr())
		a := &actor{name: fmt.Sprintf("relay-%d", i)}
		if i < relays {
			env = append(env, "CRASHCHILD_CONTROL=yes", "CRASHCHILD_DLQ="+s.topics.dlq,
				fmt.Sprintf("CRASHCHILD_PUBLISH_TIMEOUT_MS=%d", s.pace.publish.Milliseconds()),
				fmt.Sprintf("CRASHCHILD_IDLE_TRANSACTION_MS=%d", s.pace.idle.Milliseconds()),
				fmt.Sprintf("CRASHCHILD_LEADER_SILENCE_MS=%d", s.pace.idle.Milliseconds()),
				"CRASHCHILD_ACKS="+s.acks(), "CRASHCHILD_ACKS_TOPIC="+s.topics.mortal)
			a.command = func() *exec.Cmd { return withEnv(exec.Command(crashchild), env) }
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
	s.supervise()
}

// supervise keeps the processes running until the stage stops them, and returns when each was started.
func (s *stage) supervise() {
	s.t.Helper()
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
	deadline := time.Now().Add(3 * time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			s.t.Fatalf("it never came: %s", what)
		}
		rest(10 * time.Millisecond)
	}
}

// failures are the failures of the processes that the test did not cause on purpose.
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
