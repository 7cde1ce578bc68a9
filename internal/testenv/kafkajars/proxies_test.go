package kafkajars

import (
	"io"
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestProxies puts a proxy in front of a broker: a client that begins there stays there, and one that
// begins at the broker's own address goes round it.
func TestProxies(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	b, err := Start(ctx, Options{Proxies: []int{proxy.Addr().(*net.TCPAddr).Port}, JVMArgs: brief})
	available(t, err)
	t.Cleanup(func() { _ = b.Close() })
	go func() {
		for {
			client, err := proxy.Accept()
			if err != nil {
				return
			}
			go pass(client, b.Behind(0))
		}
	}()
	for seed, want := range map[string]string{proxy.Addr().String(): proxy.Addr().String(), b.Addr(): b.Addr()} {
		client, err := kgo.NewClient(kgo.SeedBrokers(seed))
		if err != nil {
			t.Fatal(err)
		}
		brokers, err := kadm.NewClient(client).ListBrokers(ctx)
		client.Close()
		if err != nil || len(brokers) != 1 {
			t.Fatalf("brokers at %s: %v, %v", seed, brokers, err)
		}
		if got := net.JoinHostPort(brokers[0].Host, strconv.Itoa(int(brokers[0].Port))); got != want {
			t.Errorf("at %s the client is sent to %s, want %s", seed, got, want)
		}
	}
}

// pass connects a client with the server and copies until one of them ends.
func pass(client net.Conn, server string) {
	defer client.Close()
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer upstream.Close()
	go func() {
		defer upstream.Close()
		_, _ = io.Copy(upstream, client)
	}()
	_, _ = io.Copy(client, upstream)
}
