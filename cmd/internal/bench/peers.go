package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// peerNames are the outboxes that the program in the folder peers can run, each with its own defaults and
// tuned as its documentation suggests.
var peerNames = []string{"watermill", "river"}

var peerTunings = []string{"default", "tuned"}

// peerSide is one outbox with one tuning.
type peerSide struct{ name, tuning string }

// peers drains the same rows with other outboxes and with this one, each from the tables it works with.
func peers(ctx context.Context, r *rig, b *broker, t *table) error {
	binary, remove, err := r.peersProgram(ctx)
	if err != nil {
		return err
	}
	defer remove()
	var sides []peerSide
	for _, name := range append([]string{"postrider"}, peerNames...) {
		for _, tuning := range peerTunings {
			sides = append(sides, peerSide{name, tuning})
		}
	}
	samples, err := inTurns(r.o.runs, sides, func(s peerSide) (drainSample, error) {
		sample, err := r.peerOnce(ctx, b, binary, s)
		if err == nil {
			r.say("peers, %s, %s: %.0f events/s", s.name, s.tuning, sample.rate)
		}
		return sample, about(s.name+", "+s.tuning, err)
	})
	if err != nil {
		return err
	}
	for i, s := range sides {
		cells := []cell{{Name: "events/s", Runs: rates(samples[i])}}
		t.add(b, s.name, s.tuning, append(cells, costs(drainCosts(samples[i]), "relay")...)...)
	}
	t.note("%d waiting events, or what passed in %v. Postrider: its defaults (marks, batch 1000, 4 workers), and tuned %s.",
		r.o.peerEvents, r.o.peerLimit, tunedPostrider.text())
	t.note("Watermill's producer waits for the leader alone (acks=1) and is not idempotent, by its own default; tuned it runs eight forwarders, a key always in the same. River is a job queue: a job sends one event, and no order is kept; the defaults are its documentation's 100 workers, tuned are 2000.")
	return nil
}

var tunedPostrider = relaySide{batch: 5000, workers: 2}

// peersProgram builds the program that runs the others. It is a module of its own: what they need is none of
// the product's business.
func (r *rig) peersProgram(ctx context.Context) (binary string, remove func(), err error) {
	if r.o.peersBinary != "" {
		return r.o.peersBinary, func() {}, nil
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/postrider/postrider/cmd/internal/bench").Output()
	if err != nil {
		return "", nil, fmt.Errorf("find the source of the peers: %w; run the bench inside its repository, or give -peers-binary", err)
	}
	dir, err := os.MkdirTemp("", "postrider-peers-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	binary = filepath.Join(dir, "peers")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	cmd.Dir = filepath.Join(strings.TrimSpace(string(out)), "peers")
	if text, err := cmd.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build the peers in %s: %w\n%s", cmd.Dir, err, text)
	}
	return binary, remove, nil
}

// peerOnce lets one outbox work off its backlog, or as much as it can in the time. Progress is the broker's
// offsets for all, so none is asked how far it is.
func (r *rig) peerOnce(ctx context.Context, b *broker, binary string, s peerSide) (sample drainSample, err error) {
	topic, err := b.newTopic(ctx, nil)
	if err != nil {
		return sample, err
	}
	defer b.deleteTopic(topic)
	d, err := r.newDatabase(ctx, "bench_peer", s.name == "postrider")
	if err != nil {
		return sample, err
	}
	defer d.drop()
	c, err := r.startPeer(ctx, b, d, binary, topic, s)
	if c != nil {
		defer func() { err = errors.Join(err, c.stop()) }()
	}
	if err != nil {
		return sample, err
	}
	if err := d.exec(ctx, "vacuum (analyze)", "checkpoint"); err != nil {
		return sample, err
	}
	m := meter{r, b, []*child{c}}
	before, start := m.now(), time.Now()
	if err := c.start(); err != nil {
		return sample, err
	}
	working, cancel := alive(ctx, c)
	defer cancel()
	for n := int64(0); ; {
		took := time.Since(start)
		if n >= int64(r.o.peerEvents) || took >= r.o.peerLimit {
			if n == 0 {
				return sample, fmt.Errorf("nothing was produced in %v", took)
			}
			sample.rate, sample.cost = float64(n)/took.Seconds(), m.now().minus(before).per100k(n)
			return sample, nil
		}
		if err := pause(working, everyTime); err != nil {
			return sample, err
		}
		if n, err = b.produced(working, topic); err != nil {
			return sample, because(working, err)
		}
	}
}

// startPeer loads the backlog and starts the process that waits for the word.
func (r *rig) startPeer(ctx context.Context, b *broker, d *database, binary, topic string, s peerSide) (*child, error) {
	if s.name == "postrider" {
		if err := d.fill(ctx, topic, r.o.peerEvents); err != nil {
			return nil, err
		}
		side := relaySide{days: 30}
		if s.tuning == "tuned" {
			side = tunedPostrider
		}
		return r.startRelay(b, d.url, side, "peers")
	}
	c, err := startChild(exec.Command(binary, s.name, s.tuning), s.name,
		"PEER_DATABASE="+d.url, "PEER_BROKER="+b.address, "PEER_TOPIC="+topic, fmt.Sprint("PEER_EVENTS=", r.o.peerEvents),
		fmt.Sprint("PEER_KEYS=", r.o.keys), fmt.Sprint("PEER_PAYLOAD=", r.o.payload))
	if err != nil {
		return nil, err
	}
	return c, c.ready()
}
