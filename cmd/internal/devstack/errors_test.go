package devstack

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestStartErrors(t *testing.T) {
	t.Parallel()
	used := startBroker(t, BrokerOptions{Dir: t.TempDir()})
	_, port, err := net.SplitHostPort(used.Addr())
	if err != nil {
		t.Fatal(err)
	}
	taken, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	usedDir, broken := t.TempDir(), t.TempDir()
	startBroker(t, BrokerOptions{Dir: usedDir})
	if err := os.WriteFile(filepath.Join(broken, "meta.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		opts BrokerOptions
		want string
	}{
		{"port in use", BrokerOptions{Port: taken}, "choose another one, or 0"},
		{"port in use, with data", BrokerOptions{Port: taken, Dir: t.TempDir()}, "choose another one, or 0"},
		{"port out of range", BrokerOptions{Port: 70000}, "give one from 1 to 65535"},
		{"negative partitions", BrokerOptions{Partitions: -1}, "give 1 or more"},
		{"folder in use", BrokerOptions{Dir: usedDir}, "another broker uses it"},
		{"broken data", BrokerOptions{Dir: broken}, "remove the folder to start empty"},
		{"folder is a file", BrokerOptions{Dir: filepath.Join(broken, "meta.json")}, "make the embedded Kafka broker's folder"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, err := StartBroker(context.Background(), tc.opts)
			if err == nil {
				_ = b.Close()
				t.Fatal("started, want an error")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error does not say %q: %v", tc.want, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := StartBroker(ctx, BrokerOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("start under an ended context: %v, want %v", err, context.Canceled)
	}
}

// TestReportsLostWrites takes the folder away under a running broker.
func TestReportsLostWrites(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "broker")
	b, err := StartBroker(t.Context(), BrokerOptions{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err == nil || !strings.Contains(err.Error(), "persist to disk") {
		t.Errorf("close without a folder: %v, want an error", err)
	}
	if !strings.Contains(log.String(), "embedded Kafka broker: persist to disk") {
		t.Errorf("log is %q, want the failure in it", log.String())
	}
}
