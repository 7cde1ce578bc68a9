package devstack

import (
	"bytes"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/logtest"
)

// TestKcat speaks to the broker with librdkafka, the client of most languages
// that are neither Java nor Go.
func TestKcat(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("kcat")
	if err != nil {
		logtest.NotTested(t, "librdkafka: there is no kcat; install it")
	}
	ctx, b := testContext(t), startBroker(t, BrokerOptions{Dir: t.TempDir()})
	kcat := func(input string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, path, append([]string{"-b", b.Addr()}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("kcat %v: %v\n%s", args, err, stderr.String())
		}
		return string(out)
	}
	kcat("k1:one\nk1:two\n", "-P", "-t", "orders", "-K:", "-X", "enable.idempotence=true")
	kcat("k1:three\n", "-P", "-t", "orders", "-K:", "-z", "zstd", "-H", "postrider-x=1")
	if got, want := kcat("", "-C", "-t", "orders", "-o", "beginning", "-e", "-q", "-f", `%k=%s `), "k1=one k1=two k1=three "; got != want {
		t.Errorf("kcat reads %q, want %q", got, want)
	}
	if got, want := kcat("", "-G", "g", "-X", "auto.offset.reset=earliest", "-c", "1", "-q", "orders"), "one\n"; got != want {
		t.Errorf("kcat in a group reads %q, want %q", got, want)
	}
	if got := consume(ctx, t, b.Addr(), "g", "orders"); got != "two" {
		t.Errorf("after kcat's commit franz-go reads %q, want two", got)
	}
}

// TestStrangers: what does not speak Kafka is hung up on, and the broker goes on.
func TestStrangers(t *testing.T) {
	t.Parallel()
	ctx, b := testContext(t), startBroker(t, BrokerOptions{})
	for name, says := range map[string]string{
		"a browser":            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"an unknown request":   "\x00\x00\x00\x0a\x27\x0f\x00\x00\x00\x00\x00\x01\xff\xff",
		"a request too short":  "\x00\x00\x00\x02\x00\x03",
		"one beyond all sizes": "\x7f\xff\xff\xff\x00\x03",
	} {
		conn, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, says); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if answer, _ := io.ReadAll(conn); len(answer) > 0 { // ends when the broker hangs up
			t.Errorf("%s is answered %q", name, answer)
		}
		_ = conn.Close()
	}
	produce(ctx, t, b.Addr(), "orders", "one")
}
