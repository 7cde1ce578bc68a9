package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	relaykafka "github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/replay"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// The environment of a process that is to be killed.
const (
	envBrokers = "REPLAY_CRASHCHILD_BROKERS"
	envFrom    = "REPLAY_CRASHCHILD_FROM"
	envBatches = "REPLAY_CRASHCHILD_BATCHES"
)

// childBatch is how many messages are on their way at once, and so may be sent twice.
const childBatch = 20

// crashchild is the process that is to be killed: it replays, and a moment after so many batches it kills itself as
// kill -9 does. After none it finishes.
func crashchild() int {
	brokers, batches := strings.Split(os.Getenv(envBrokers), ","), os.Getenv(envBatches)
	said := 0
	err := func() error {
		cluster, err := New(Config{Brokers: brokers, MaxRecords: childBatch})
		if err != nil {
			return err
		}
		defer cluster.Close()
		publisher, err := relaykafka.NewPublisher(relaykafka.Config{Brokers: brokers})
		if err != nil {
			return err
		}
		defer publisher.Close()
		r, err := replay.New(replay.Config{Cluster: cluster, Publisher: publisher, Batch: childBatch, Options: replay.Options{From: os.Getenv(envFrom)},
			Observer: func(p replay.Progress) {
				if said++; !p.Planning && strconv.Itoa(said) == batches {
					time.AfterFunc(rand.N(5*time.Millisecond), func() {
						self, _ := os.FindProcess(os.Getpid())
						_ = self.Kill()
					})
				} else if p.Planning {
					said = 0
				}
			}})
		if err != nil {
			return err
		}
		p, err := r.Plan(context.Background())
		if err != nil {
			return err
		}
		res, err := r.Run(context.Background(), p)
		fmt.Printf("%+v\n%+v\n%d observations\n", p, res, said)
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runChild runs a process that dies after so many batches, or finishes after none. It reports whether it was killed.
func runChild(t *testing.T, b *kafkatest.Broker, from string, batches int) (killed bool, said string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envBrokers+"="+strings.Join(b.Addrs, ","), envFrom+"="+from, envBatches+"="+strconv.Itoa(batches))
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() >= 0 {
		t.Fatalf("the replay failed: %v\n%s", err, out)
	}
	return err != nil, string(out)
}

// TestKilled kills the replay ten times in the middle.
func TestKilled(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		from, to := b.Topic(t, 2, nil), b.Topic(t, 3, nil)
		const n, kills = 2000, 10
		produce(t, b, letters(from, to, 2, n)...)
		for i := range kills {
			if killed, said := runChild(t, b, from, 1+rand.IntN(6)); !killed {
				t.Fatalf("it was done before it was killed for the time %d:\n%s", i+1, said)
			}
			if i == 0 { // after the replay began: not part of it
				produce(t, b, letter(from, to, 0, n, nil, []byte("late")))
			}
		}
		runChild(t, b, from, 0)
		ids, last := map[string]string{}, map[string]int{}
		all := b.ReadAll(t, to, n)
		for _, r := range all {
			value, id := string(r.Value), header(r, "replay_id")
			before, again := ids[value]
			switch {
			case value == "late":
				t.Error("what was written later was sent")
			case again && before != id:
				t.Errorf("%s has the ids %s and %s", value, before, id)
			case !again:
				ids[value] = id
				last[string(r.Key)] = inOrder(t, r, last)
			}
		}
		if len(ids) != n {
			t.Errorf("%d of %d letters were sent", len(ids), n)
		}
		if twice := len(all) - n; twice > kills*childBatch {
			t.Errorf("%d were sent twice, with %d on their way at each of %d deaths", twice, childBatch, kills)
		}
	})
}

// inOrder checks the first occurrences of a key, and returns the number of this one.
func inOrder(t *testing.T, r *kgo.Record, last map[string]int) int {
	t.Helper()
	var i int
	if _, err := fmt.Sscan(string(r.Value), &i); err != nil {
		t.Fatal(err)
	}
	if before, known := last[string(r.Key)]; known && before > i {
		t.Errorf("%s: %d after %d", r.Key, i, before)
	}
	return i
}
