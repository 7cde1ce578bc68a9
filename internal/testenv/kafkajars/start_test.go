package kafkajars

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/internal/testenv/logtest"
)

func TestStartErrors(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // after the parallel subtests, unlike a defer
	taken := l.Addr().(*net.TCPAddr).Port
	notADir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notADir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		opts Options
		want string
		is   error
	}{
		{"port taken", Options{Port: taken}, "is not free", syscall.EADDRINUSE},
		{"own setting", Options{Config: map[string]string{"listeners": "x"}}, "must not set listeners", nil},
		{"two lines", Options{Config: map[string]string{"num.partitions": "1\nlisteners=x"}}, "a setting is one line", nil},
		{"bad setting", Options{Config: map[string]string{"num.partitions": "many"}, JVMArgs: brief}, "num.partitions", nil},
		{"bad heap", Options{Heap: "lots"}, "Invalid maximum heap size", nil},
		{"dir is a file", Options{Dir: notADir}, "make the Kafka broker's folder", nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, err := Start(testContext(t), tc.opts)
			if err == nil {
				_ = b.Close()
				t.Fatal("started, want an error")
			}
			if errors.Is(err, ErrUnavailable) {
				logtest.NotTested(t, err.Error())
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error does not say %q:\n%v", tc.want, err)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error is not %v:\n%v", tc.is, err)
			}
		})
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	_, err := classpath(testContext(t), DefaultVersion, nil)
	available(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the test has seen enough")
	// The broker's first line of output ends the wait for it.
	b, err := Start(ctx, Options{JVMArgs: brief, Log: writerFunc(func(p []byte) (int, error) { cancel(why); return len(p), nil })})
	if err == nil {
		_ = b.Close()
		t.Fatal("started although its context ended")
	}
	if !errors.Is(err, why) || !strings.Contains(err.Error(), "did not start") {
		t.Errorf("error = %v, want the broker's and the cause of the context's end", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// testLog shows the broker's warnings when the test fails or runs with -v.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if strings.Contains(line, " ERROR ") {
			l.t.Log(strings.TrimSpace(line))
		}
	}
	return len(p), nil
}
