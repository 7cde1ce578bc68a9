package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// peer is another outbox, run by the program in the folder peers, with its own defaults or tuned as its documentation
// suggests. It makes and fills its tables itself.
type peer struct {
	*rig
	name, tuning string
}

func (p peer) title() (name, settings string) { return p.name, p.tuning }
func (peer) outbox() *outboxTable             { return &outboxTable{name: "its own"} }
func (peer) prepare(context.Context, *stage) error {
	return nil
}

// warming is less than others have: it goes at a hundredth of their speed.
func (peer) warming() int { return 2000 }

func (p peer) load(ctx context.Context, s *stage, first, n int) error {
	cmd, err := p.command(ctx, s, "load", fmt.Sprint("PEER_FIRST=", first), fmt.Sprint("PEER_EVENTS=", n))
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("load events into %s: %w\n%s", p.name, err, out)
	}
	return nil
}

func (p peer) start(ctx context.Context, s *stage) (process, error) {
	cmd, err := p.command(context.WithoutCancel(ctx), s, "work")
	if err != nil {
		return nil, err
	}
	c, err := startChild(cmd, p.name, cmd.Env...)
	if err != nil {
		return nil, err
	}
	if err = c.ready(); err == nil {
		err = c.start()
	}
	return c, err
}

func (p peer) command(ctx context.Context, s *stage, part string, env ...string) (*exec.Cmd, error) {
	binary, err := s.peersBinary(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, part, p.name, p.tuning)
	cmd.Env = append(append(os.Environ(), "PEER_DATABASE="+s.d.url, "PEER_BROKER="+s.b.address, "PEER_TOPIC="+s.topic,
		fmt.Sprint("PEER_KEYS=", s.o.keys), fmt.Sprint("PEER_PAYLOAD=", s.o.payload)), env...)
	return cmd, nil
}

// peersProgram is the program that runs the others, built when it is first needed. It is a module of its own: what they
// need is none of the product's business.
type peersProgram struct {
	mu     sync.Mutex
	binary string
	dir    string // what was built, and is to be removed
}

func (r *rig) peersBinary(ctx context.Context) (string, error) {
	r.peers.mu.Lock()
	defer r.peers.mu.Unlock()
	if r.peers.binary == "" {
		r.peers.binary = r.o.peersBinary
	}
	if r.peers.binary != "" {
		return r.peers.binary, nil
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/postrider/postrider/cmd/internal/bench").Output()
	if err != nil {
		return "", fmt.Errorf("find the source of the peers: %w; run the bench inside its repository, or give -peers-binary", err)
	}
	if r.peers.dir, err = os.MkdirTemp("", "postrider-peers-"); err != nil {
		return "", err
	}
	binary := filepath.Join(r.peers.dir, "peers")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	cmd.Dir = filepath.Join(strings.TrimSpace(string(out)), "peers")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the peers in %s: %w\n%s", cmd.Dir, err, text)
	}
	r.peers.binary = binary
	return binary, nil
}

// remove removes what was built.
func (p *peersProgram) remove() {
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}
