package kafkatest

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// kfakeDefaults are what every kfake cluster of this package starts from: one
// broker, no topics except the ones that a test creates, and log segments that do not
// grow to 100 MB by copying.
func kfakeDefaults() []kfake.Opt {
	return []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.DefaultNumPartitions(1),
		kfake.BrokerConfigs(map[string]string{"log.segment.bytes": "4194304"}),
	}
}

// Kfake starts a fake cluster of its own for the test, ended with it: one
// broker, and topics exist only once they are created. opts come after these
// defaults; [Broker.Cluster] injects faults.
func Kfake(t testing.TB, opts ...kfake.Opt) *Broker {
	t.Helper()
	b, err := startKfake("franz-go, in process", opts...)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	closed := reapDead(b)
	t.Cleanup(func() {
		b.Cluster.Close()
		closed()
	})
	return b
}

// Virtual is [Kfake] on an in-memory network, for tests under virtual time
// (testing/synctest), where real connections would keep the clock from
// advancing. Clients must come from the returned broker.
func Virtual(t testing.TB, opts ...kfake.Opt) *Broker {
	t.Helper()
	var network kfake.VirtualNetwork
	// A virtual listener has the port that it asks for; 0 would be one port
	// for all brokers.
	b := Kfake(t, append([]kfake.Opt{kfake.ListenFn(network.Listen), kfake.Ports(9092)}, opts...)...)
	b.dial = network.DialContext
	return b
}

func startKfake(detail string, opts ...kfake.Opt) (*Broker, error) {
	cluster, err := kfake.NewCluster(append(kfakeDefaults(), opts...)...)
	if err != nil {
		return nil, err
	}
	return &Broker{
		Kind:    KindKfake,
		Addrs:   cluster.ListenAddrs(),
		Cluster: cluster,
		detail:  detail,
		keep:    true,
	}, nil
}
