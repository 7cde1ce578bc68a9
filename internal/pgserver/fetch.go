package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// fetchVersion is the PostgreSQL that Fetch obtains, and fetchMajor its major version.
const (
	fetchVersion = embedded.V17
	fetchMajor   = "17"
)

// Fetch obtains PostgreSQL server binaries for this system over the network and keeps them in
// cacheDir, for a machine where Find found none; a second call finds them there. Several
// processes may fetch into one directory. When the server will be run by root, the directory
// must be one that other users can enter, because PostgreSQL refuses to run as root.
//
// The download itself cannot be interrupted: when ctx ends Fetch returns at once, and the
// download goes on in the background until it is done and is then thrown away.
func Fetch(ctx context.Context, cacheDir string) (Binaries, error) {
	f := fetcher{adjust: func(c embedded.Config) embedded.Config { return c }, tidied: func() {}}
	return f.fetch(ctx, cacheDir)
}

// fetcher is Fetch with what its tests decide.
type fetcher struct {
	adjust func(embedded.Config) embedded.Config // the last word on the library's configuration
	tidied func()                                // called when nothing of the download is left
}

func (f fetcher) fetch(ctx context.Context, cacheDir string) (Binaries, error) {
	cacheDir, err := filepath.Abs(cacheDir)
	if err != nil {
		return Binaries{}, fmt.Errorf("pgserver: cache directory: %w", err)
	}
	final := filepath.Join(cacheDir, "postgresql-"+string(fetchVersion))
	if b, err := inspect(filepath.Join(final, "bin")); err == nil {
		return b, nil
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return Binaries{}, fmt.Errorf("pgserver: create the cache directory: %w", err)
	}
	d, err := newDownload(cacheDir, f.adjust)
	if err != nil {
		return Binaries{}, err
	}
	finished := make(chan error, 1)
	received := make(chan struct{})
	go func() {
		finished <- d.run()
		<-received // the caller has used the files, or does not want them
		_ = d.remove()
		f.tidied()
	}()
	defer close(received)
	select {
	case err = <-finished:
	case <-ctx.Done():
		return Binaries{}, fmt.Errorf("pgserver: fetch PostgreSQL %s: %w", fetchVersion, context.Cause(ctx))
	}
	if err != nil {
		return Binaries{}, fmt.Errorf("pgserver: fetch PostgreSQL %s into %s: %w; check the network, or install PostgreSQL and set %s", fetchVersion, cacheDir, err, BinEnv)
	}
	return d.install(final)
}

// download is one run of the library in a directory of its own, which no other process
// knows. The library has no call that only downloads, and its way to a running server does not
// work as root. So it is given a data directory that exists and is empty but for its version:
// it downloads, checks and extracts, takes the data as it is, and fails to start a server on it.
type download struct {
	dir    string
	config embedded.Config
}

func newDownload(cacheDir string, adjust func(embedded.Config) embedded.Config) (*download, error) {
	dir, err := os.MkdirTemp(cacheDir, "fetch-")
	if err != nil {
		return nil, fmt.Errorf("pgserver: create a directory for the download: %w", err)
	}
	d := &download{dir: dir}
	if err := os.Mkdir(d.path("data"), 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("pgserver: %w", err), d.remove())
	}
	if err := os.WriteFile(d.path("data/PG_VERSION"), []byte(fetchMajor+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("pgserver: %w", err), d.remove())
	}
	port, err := freePort() // the library wants one before anything else
	if err != nil {
		return nil, errors.Join(err, d.remove())
	}
	d.config = adjust(embedded.DefaultConfig().Version(fetchVersion).Port(port).Logger(io.Discard).
		CachePath(d.path("archive")).BinariesPath(d.path("install")).
		DataPath(d.path("data")).RuntimePath(d.path("runtime")))
	return d, nil
}

func (d *download) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

func (d *download) remove() error { return os.RemoveAll(d.dir) }

// run returns nil when the binaries are extracted. The library makes its runtime directory
// directly after that and never before, so the directory tells how far it came.
func (d *download) run() error {
	server := embedded.NewDatabase(d.config)
	err := server.Start()
	if err == nil {
		return errors.Join(errors.New("a server started on an empty data directory"), server.Stop())
	}
	if _, missing := os.Stat(d.path("runtime")); missing == nil {
		return nil
	}
	return err
}

// install puts the extracted binaries in their final place, unless another process was faster.
func (d *download) install(final string) (Binaries, error) {
	if err := os.Chmod(d.path("install"), 0o755); err != nil {
		return Binaries{}, fmt.Errorf("pgserver: %w", err)
	}
	if _, err := inspect(d.path("install/bin")); err != nil {
		return Binaries{}, fmt.Errorf("pgserver: the PostgreSQL %s that was fetched does not run on this system: %w; install PostgreSQL and set %s", fetchVersion, err, BinEnv)
	}
	renamed := os.Rename(d.path("install"), final)
	b, err := inspect(filepath.Join(final, "bin"))
	if err != nil {
		return Binaries{}, fmt.Errorf("pgserver: %w", errors.Join(err, renamed))
	}
	return b, nil
}

func freePort() (uint32, error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return 0, fmt.Errorf("pgserver: find a free port: %w", err)
	}
	defer listener.Close()
	return uint32(listener.Addr().(*net.TCPAddr).Port), nil
}
