package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHealth: the exit code says what the server says, and an address that listens everywhere is asked on this machine.
func TestHealth(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/livez" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("it is " + r.URL.Path + "\n"))
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	_, port, _ := strings.Cut(address, ":")
	for _, at := range []string{address, ":" + port, "0.0.0.0:" + port, "[::]:" + port} {
		if r := postrider(t, []string{"HTTP_ADDRESS=" + at}, "health"); r.code != ExitOK || r.stdout != "it is /livez\n" {
			t.Errorf("%s: exit code %d, %s%s", at, r.code, r.stdout, r.stderr)
		}
	}
	r := postrider(t, nil, "health", "--ready", "--http-address", address)
	if r.code != ExitFailure {
		t.Errorf("not ready: exit code %d", r.code)
	}
	contains(t, r.stderr, "503", "it is /readyz")
	server.Close()
	r = postrider(t, nil, "health", "--http-address", address)
	if r.code != ExitFailure {
		t.Errorf("no server: exit code %d", r.code)
	}
	contains(t, r.stderr, "postrider serve does not answer")
}
