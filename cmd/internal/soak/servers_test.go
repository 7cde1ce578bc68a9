package soak

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/pgserver"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgproxy"
)

// startKafka starts a broker from jars behind the links.
func (s *stage) startKafka() {
	var ports []int
	for range relays + 1 {
		l := s.link()
		s.kafkaLinks, ports = append(s.kafkaLinks, l), append(ports, l.Port())
	}
	b := kafkatest.Own(s.t, kafkajars.Options{Proxies: ports, Log: newLog(s.t, "kafka")})
	for i, l := range s.kafkaLinks {
		l.Aim(b.Behind(i))
	}
	s.jars, s.broker = b, "Apache Kafka "+b.Version()
	s.direct = []kgo.Opt{kgo.SeedBrokers(b.Addr())}
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

// startPostgres starts a server that can be restarted, behind the links and proxies that see commits.
func (s *stage) startPostgres() {
	dir, err := os.MkdirTemp(pgserver.MemoryDir(), "postrider-soak-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // started by root, PostgreSQL runs as another user
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
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
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
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
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
