package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/loop"
)

// ledWithin is how long processes may take until they lead all sources.
const ledWithin = 2 * time.Minute

// sourceSet is many outboxes, each in a database of its own, and the settings of processes that carry them.
type sourceSet struct {
	rig       *rig
	settings  string // the file
	folder    string
	databases []*database
}

// newSources makes n sources, named s0, s1 and so on, which write to topics of their name and a dot. more is YAML for each
// process beside them. They are on the server of the rig, or on these in turn.
func (r *rig) newSources(ctx context.Context, n int, more string, servers ...*rig) (_ *sourceSet, err error) {
	if len(servers) == 0 {
		servers = []*rig{r}
	}
	s := &sourceSet{rig: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.drop())
		}
	}()
	if s.folder, err = os.MkdirTemp("", "postrider-bench-sources-"); err != nil {
		return nil, err
	}
	set := r.stages.Add(1)
	for i := range n {
		d, err := servers[i%len(servers)].newDatabase(ctx, fmt.Sprintf("bench_source_%d_%d", set, i), true)
		if err != nil {
			return nil, err
		}
		s.databases = append(s.databases, d)
		if err := d.exec(ctx, fmt.Sprintf("select postrider.outbox_new_identity('s%d')", i)); err != nil { // all are copies of one database
			return nil, err
		}
		if err := d.conn.Close(ctx); err != nil {
			return nil, err
		}
		d.conn = nil
	}
	for _, server := range servers {
		if err := server.administer(ctx, "checkpoint"); err != nil { // or it is done beside what is measured
			return nil, err
		}
	}
	s.settings, err = s.writeSettings(s.folder, "", more)
	return s, err
}

// writeSettings writes the settings of a process into an empty folder, and returns the file. Where a host is given, the databases are
// reached by way of that.
func (s *sourceSet) writeSettings(folder, host, more string) (file string, err error) {
	for i, d := range s.databases {
		address, err := urlBy(d.url, host)
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("name: s%d\nurl: %q\ntopics: {allow: [\"s%d.*\"]}\n", i, address, i)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("s%d.yaml", i)), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	file = filepath.Join(folder, ".settings.yaml") // a name that begins with a dot is no source
	return file, os.WriteFile(file, fmt.Appendf(nil, "sources_dir: %q\n%s", folder, more), 0o600)
}

// urlBy is the address of a database by way of a host, or the same without one.
func urlBy(address, host string) (string, error) {
	u, err := url.Parse(address)
	if err == nil && host != "" {
		u.Host = host
		address = u.String()
	}
	return address, err
}

func (s *sourceSet) drop() error {
	for _, d := range s.databases {
		d.drop()
	}
	return os.RemoveAll(s.folder)
}

// carrier is a process that carries sources.
type carrier struct {
	*child
	address string
}

// carry starts a process with these sources, and the desk of a database if one is given.
func (s *sourceSet) carry(b *broker, desk, roles string) (*carrier, error) {
	return s.carryBy(b, desk, roles, s.settings)
}

// carryBy is carry with other settings.
func (s *sourceSet) carryBy(b *broker, desk, roles, settings string) (_ *carrier, err error) {
	changed := map[string]string{}
	if desk == "" {
		changed["http.api"] = "false"
	}
	c, err := s.rig.startServe(b, desk, changed, roles, "BENCH_CONFIG="+settings)
	if c == nil {
		return nil, err
	}
	k := &carrier{child: c}
	if err == nil {
		err = c.start()
	}
	if err == nil {
		k.address, err = c.line()
	}
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return k, nil
}

var leadingSources = regexp.MustCompile(`(?m)^postrider_sources\{state="leading"\} (\d+)$`)

// leads is how many sources the process leads, by its metrics.
func (k *carrier) leads(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+k.address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	found := leadingSources.FindSubmatch(page)
	if found == nil {
		return 0, errors.New("the metrics do not say how many sources are led")
	}
	return strconv.Atoi(string(found[1]))
}

// awaitLed waits until the processes lead all sources, and each leads some.
func (s *sourceSet) awaitLed(ctx context.Context, all ...*carrier) error {
	for began := time.Now(); ; {
		sum, each := 0, true
		var problems error
		for _, k := range all {
			n, err := k.leads(ctx)
			sum, each, problems = sum+n, each && n > 0, errors.Join(problems, err)
		}
		if sum == len(s.databases) && each {
			return nil
		}
		if time.Since(began) > ledWithin {
			return errors.Join(fmt.Errorf("the processes lead %d of %d sources within %v", sum, len(s.databases), ledWithin), problems)
		}
		if err := loop.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// sourceLoad is one source with writers that keep a schedule, and a consumer.
type sourceLoad struct {
	*stage
	clients  *clients
	arrivals *arrivals
	consumer *kgo.Client
	cancel   context.CancelFunc
	consumed chan error
}

// loads connects writers and a consumer to each source, for so many events each.
func (s *sourceSet) loads(ctx context.Context, b *broker, writers, events int) (all []*sourceLoad, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, endLoads(all))
		}
	}()
	for i, d := range s.databases {
		l := &sourceLoad{stage: &stage{rig: s.rig, b: b, side: newPostrider(nil), d: d, topic: fmt.Sprintf("s%d.events", i)},
			arrivals: newArrivals(events, 0), consumed: make(chan error, 1)}
		if err := b.createTopic(ctx, l.topic, nil); err != nil {
			return all, err
		}
		all = append(all, l)
		if l.consumer, err = b.consumer(l.topic); err != nil {
			return all, err
		}
		consuming, cancel := context.WithCancel(ctx)
		l.cancel = cancel
		go func() { l.consumed <- l.arrivals.consume(consuming, l.consumer) }()
		if l.clients, err = l.connect(ctx, writers, l.arrivals.writes); err != nil {
			return all, err
		}
	}
	return all, nil
}

// writeAll writes n events from a number on to each source, at so many a second each, and waits until all have arrived.
func writeAll(ctx context.Context, all []*sourceLoad, first, n, rate int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var writing sync.WaitGroup
	for _, l := range all {
		writing.Go(func() {
			err := l.clients.schedule(ctx, func(seq int) event { return l.o.event(l.topic, seq) }, first, n, rate, l.arrivals.committed)
			if err == nil {
				err = l.arrivals.all(ctx, first+n)
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	writing.Wait()
	return context.Cause(ctx)
}

// endLoads ends consumers and writers; the databases stay.
func endLoads(all []*sourceLoad) error {
	var errs []error
	for _, l := range all {
		if l.cancel != nil {
			l.cancel()
			errs = append(errs, <-l.consumed)
			l.consumer.Close()
		}
		if l.clients != nil {
			l.clients.close()
		}
		l.b.deleteTopic(l.topic)
	}
	return errors.Join(errs...)
}
