package kafkatest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// dockerPatience is how long a daemon may take to say that it is there.
const dockerPatience = time.Second

// pingDocker returns why no Docker daemon answers at any of the usual places.
// It asks by itself, because testcontainers takes many seconds to give up.
func pingDocker(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dockerPatience)
	defer cancel()
	var errs []error
	for _, host := range dockerHosts() {
		err := pingDockerAt(ctx, host)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("no daemon answers: %w", errs[0]) // of the likeliest place
}

// dockerHosts returns where a daemon may be: where DOCKER_HOST says, otherwise
// the sockets of Docker, rootless Docker and Docker Desktop.
func dockerHosts() []string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return []string{host}
	}
	hosts := []string{"unix:///var/run/docker.sock"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		hosts = append(hosts, "unix://"+filepath.Join(dir, "docker.sock"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		hosts = append(hosts, "unix://"+filepath.Join(home, ".docker", "run", "docker.sock"))
	}
	return hosts
}

func pingDockerAt(ctx context.Context, host string) error {
	u, err := url.Parse(host)
	if err != nil {
		return fmt.Errorf("DOCKER_HOST: %w", err)
	}
	protocol, addr := "tcp", u.Host
	if u.Scheme == "unix" {
		protocol, addr = "unix", u.Path
	}
	var d net.Dialer
	if u.Scheme != "unix" && os.Getenv("DOCKER_TLS_VERIFY") != "" {
		conn, err := d.DialContext(ctx, protocol, addr) // the certificates are testcontainers' matter
		if err != nil {
			return err
		}
		return conn.Close()
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, protocol, addr) },
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", host, resp.Status)
	}
	return nil
}
