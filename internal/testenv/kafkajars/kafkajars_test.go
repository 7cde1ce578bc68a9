package kafkajars

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/testenv/logtest"
)

// starterEnv turns this test binary into a process that starts a broker in the
// folder that it names and waits to be killed, see TestDiesWithItsParent.
const starterEnv = "KAFKAJARS_TEST_STARTER"

// brief are the arguments of brokers that live for seconds.
var brief = []string{shortRun}

func TestMain(m *testing.M) {
	if dir := os.Getenv(starterEnv); dir != "" {
		os.Exit(starter(dir))
	}
	goleak.VerifyTestMain(m)
}

func starter(dir string) int {
	b, err := Start(context.Background(), Options{Dir: dir, JVMArgs: brief})
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Println(b.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // ends only when the test forgets to kill us
	_ = b.Close()
	return 0
}

// available ends a test where this machine cannot run a broker from jars, and
// says why not.
func available(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, ErrUnavailable) {
		logtest.NotTested(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func produce(ctx context.Context, t *testing.T, b *Broker, topic string, values ...string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, v := range values {
		if err := client.ProduceSync(ctx, kgo.StringRecord(v)).FirstErr(); err != nil {
			t.Fatalf("produce %q: %v", v, err)
		}
	}
}

func wantValues(ctx context.Context, t *testing.T, b *Broker, topic string, want ...string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var got []string
	for len(got) < len(want) {
		fs := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("read %v of %v: %v", got, want, err)
		}
		fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("topic holds %v, want %v", got, want)
	}
}

// TestLifecycle takes one broker through everything that can be done to it; its
// records and its address stay.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	ctx, dir, topic := testContext(t), t.TempDir(), "t"
	b, err := Start(ctx, Options{Dir: dir, Log: testLog{t}, JVMArgs: brief})
	available(t, err)
	t.Cleanup(func() { _ = b.Close() })
	addr := b.Addr()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	produce(ctx, t, b, topic, "one")

	steps := []struct {
		name, record string
		do           func() error
	}{
		{"kill and restart", "two", func() error { return errors.Join(b.Kill(), b.Kill(), gone(b), b.Restart(ctx)) }},
		{"stop and restart", "three", func() error { return errors.Join(b.Stop(ctx), b.Stop(ctx), gone(b), b.Restart(ctx)) }},
		{"restart while running", "four", func() error { return b.Restart(ctx) }},
		{"pause and resume", "five", func() error { return errors.Join(b.Pause(), frozen(b), b.Resume()) }},
		{"restart while paused", "six", func() error { return errors.Join(b.Pause(), b.Restart(ctx)) }},
	}
	want := []string{"one"}
	for _, s := range steps {
		began := time.Now()
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		t.Logf("%s: %v", s.name, time.Since(began).Round(time.Millisecond))
		if b.Addr() != addr {
			t.Fatalf("%s: address is %s, was %s", s.name, b.Addr(), addr)
		}
		produce(ctx, t, b, topic, s.record)
		want = append(want, s.record)
		wantValues(ctx, t, b, topic, want...)
	}

	if err := errors.Join(b.Stop(ctx), b.Close(), b.Close()); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := b.Pause(); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Fatalf("pause of a closed broker = %v, want an error that it does not run", err)
	}
	again, err := Start(ctx, Options{Dir: dir, JVMArgs: brief})
	if err != nil {
		t.Fatalf("start in the folder of a closed broker: %v", err)
	}
	defer func() { _ = again.Close() }()
	wantValues(ctx, t, again, topic, want...)
}

// gone returns an error while something listens on the broker's address.
func gone(b *Broker) error {
	if b.PID() != 0 {
		return fmt.Errorf("process %d still runs", b.PID())
	}
	conn, err := net.Dial("tcp", b.Addr())
	if err != nil {
		return nil
	}
	return errors.Join(fmt.Errorf("%s still accepts connections", b.Addr()), conn.Close())
}

// frozen returns an error unless the kernel shows the broker as stopped.
func frozen(b *Broker) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.PID()))
	if errors.Is(err, os.ErrNotExist) {
		return nil // no /proc on this system
	}
	if err != nil {
		return err
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	if !strings.HasPrefix(state, "T") {
		return fmt.Errorf("state of the paused broker is %.1q, want T", state)
	}
	return nil
}

// TestDiesWithItsParent kills the process that started a broker and waits for
// the end of a connection to that broker.
func TestDiesWithItsParent(t *testing.T) {
	t.Parallel()
	if !childDiesWithParent {
		logtest.NotTested(t, "the end of a broker with its parent: this system has no parent-death signal")
	}
	_, err := findJava(t.Context())
	available(t, err)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), starterEnv+"="+t.TempDir())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the starter ended without an address: %v", err)
	}
	conn, err := net.Dial("tcp", strings.TrimSpace(addr))
	if err != nil {
		t.Fatalf("dial the broker at %q: %v", addr, err)
	}
	defer func() { _ = conn.Close() }()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the broker outlived the process that started it")
	}
}
