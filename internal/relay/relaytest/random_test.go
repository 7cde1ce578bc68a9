package relaytest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/testenv/pgproxy"
)

// topicLimit is the max.message.bytes of one of the topics, less than the relay thinks.
const topicLimit = 5_000

// faults are what the broker may answer to any batch; recordFaults to batches of several records, as if
// one of them were bad.
var (
	faults = []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.KafkaStorageError,
		kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.TopicAuthorizationFailed,
		kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch,
	}
	recordFaults = []*kerr.Error{
		kerr.InvalidRecord, kerr.MessageTooLarge, kerr.CorruptMessage, kerr.PolicyViolation, kerr.UnknownServerError, kerr.InvalidTimestamp,
	}
)

// TestRandomFaults runs two relays over several writers while brokers, connections, commits and relays
// fail at random. Afterwards everything that was committed must be in its topic, in order, or, if it is
// too large, dead-lettered, and nothing else. POSTRIDER_TEST_SEED repeats the choices of a run.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	seeds := []uint64{rand.Uint64(), rand.Uint64()}
	if s := os.Getenv("POSTRIDER_TEST_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("POSTRIDER_TEST_SEED: %v", err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			runRandom(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// run is a run under way.
type run struct {
	*workload
	rng      *rand.Rand
	dlq      string
	relays   []*running
	standing []*kfake.FaultHandle
	missing  string
	history  []string
}

func runRandom(t *testing.T, rng *rand.Rand) {
	r := newRig(t)
	wide, narrow, dlq := r.broker.Topic(t, 4, nil), r.broker.Topic(t, 1, map[string]string{"max.message.bytes": fmt.Sprint(topicLimit)}), r.broker.Topic(t, 2, nil)
	x := &run{rng: rng, dlq: dlq, missing: wide + "-missing"}
	x.workload = newWorkload(r, 8, wide, narrow, x.missing)
	x.narrow = narrow
	x.relays = []*running{r.start(dlq), r.start(dlq)}
	for range 12 {
		x.burst(rng, 3, 5)
		x.step()
		r.until(`pg_sleep($1) is not null`, rng.Float64()*0.3)
	}
	x.heal()
	t.Logf("%d events are committed, %d rolled back; %v", len(x.committed), x.rolled, x.history)
	r.until(drained)
	r.until(`not exists (select from postrider.outbox_hold)`)
	for _, e := range x.relays {
		e.halt()
	}
	v := x.verdict(dlq)
	t.Logf("%s", v)
	if err := v.Err(); err != nil {
		t.Error(err)
	}
}

func (x *run) note(format string, args ...any) {
	x.history = append(x.history, fmt.Sprintf(format, args...))
}

// step lets something happen.
func (x *run) step() {
	x.Helper()
	switch x.rng.IntN(9) {
	case 0, 1, 2:
		topics := append([]string{x.dlq}, x.topics...)
		f := kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topics[x.rng.IntN(len(topics))],
			Err: faults[x.rng.IntN(len(faults))], Count: []int{1, 2, 5, -1}[x.rng.IntN(4)]}
		if x.rng.IntN(3) == 0 {
			f.Err, f.When = recordFaults[x.rng.IntN(len(recordFaults))], manyRecords
		}
		x.note("%s %d times", f.Err.Message, f.Count)
		x.standing = append(x.standing, x.broker.Cluster.Fault(f))
	case 3:
		x.note("faults end")
		x.endFaults()
	case 4:
		if x.rng.IntN(2) == 0 {
			x.note("a commit is lost")
			x.proxy.CutBeforeCommit(1+x.rng.IntN(2), pgproxy.Containing("postrider."))
		} else {
			x.note("the answer to a commit is lost")
			x.proxy.CutAfterCommit(1+x.rng.IntN(2), pgproxy.Containing("postrider."))
		}
	case 5:
		x.note("sessions end")
		x.exec(`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'postrider' and random() < 0.5`)
	case 6:
		n := x.rng.IntN(len(x.relays))
		x.note("relay %d is restarted", n)
		x.relays[n].halt()
		x.relays[n] = x.start(x.dlq)
	case 7:
		x.note("leaders move")
		x.broker.Cluster.ShufflePartitionLeaders()
	case 8:
		x.note("ids jump") // as after many transactions that rolled back
		x.exec(`select setval(pg_get_serial_sequence('postrider.outbox_event', 'id'), nextval(pg_get_serial_sequence('postrider.outbox_event', 'id')) + 5000)`)
	}
}

func (x *run) endFaults() {
	for _, f := range x.standing {
		f.Remove()
	}
	x.standing = nil
}

// heal ends every fault.
func (x *run) heal() {
	x.Helper()
	x.endFaults()
	x.proxy.CutAfterCommit(0, nil)
	x.broker.CreateTopic(x, x.missing, 2, nil)
}

// manyRecords says whether a produce request has a batch of more than one record.
func manyRecords(req kmsg.Request) bool {
	for _, topic := range req.(*kmsg.ProduceRequest).Topics {
		for _, p := range topic.Partitions {
			const at = 57 // of the number of records in a batch of version 2
			if len(p.Records) > at+4 && binary.BigEndian.Uint32(p.Records[at:]) > 1 {
				return true
			}
		}
	}
	return false
}
