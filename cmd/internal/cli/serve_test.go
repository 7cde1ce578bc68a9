package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// serve with a file, the environment and a flag, up to a clean end.
func TestServe(t *testing.T) {
	t.Parallel()
	db, broker := pgtest.NewEmpty(t), kafkatest.Kfake(t)
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte("http:\n  address: 127.0.0.1:0\noutbox:\n  dispatches: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	logs, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := Run(ctx, []string{"serve", "--migrate", "--config", file, "--outbox-log", "--kafka-brokers", strings.Join(broker.Addrs, ",")},
			[]string{"DATABASE_URL=" + db.URL, "OUTBOX_BATCH_SIZE=77"}, &stdout, stderr)
		stderr.Close()
		ended <- code
	}()
	var said []string
	ready := false
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		said = append(said, lines.Text())
		var line struct{ Msg, Address string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Errorf("a log line is not JSON: %s", lines.Text())
		}
		if line.Msg != "listening" {
			continue
		}
		go func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
			for ctx.Err() == nil && !ready {
				response, err := client.Get("http://" + line.Address + "/readyz")
				if err != nil {
					continue
				}
				response.Body.Close()
				ready = response.StatusCode == http.StatusOK
			}
			cancel()
		}()
	}
	if code := <-ended; code != ExitOK || !ready || stdout.Len() > 0 {
		t.Errorf("exit code %d, ready %v, stdout %q", code, ready, stdout.String())
	}
	log := strings.Join(said, "\n")
	contains(t, log, `"batch_size":"77"`, `"dispatches":"2"`, `"log":"true"`, `"msg":"migrated"`, `"msg":"stopped"`)
	address, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if password, given := address.User.Password(); given && strings.Contains(log, password) {
		t.Errorf("the log shows the password:\n%s", log)
	}
}
