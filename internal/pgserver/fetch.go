package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// fetchVersion is the PostgreSQL that Obtain fetches, and fetchMajor its major version.
const (
	fetchVersion = embedded.V17
	fetchMajor   = "17"
)

// fetchFrom is Maven Central: it has the packages of zonkyio/embedded-postgres-binaries.
const fetchFrom = "https://repo1.maven.org/maven2"

// Download is what Obtain is about to fetch.
type Download struct {
	// Version is that of PostgreSQL, for example "17.5".
	Version string
	// From is the address of the repository.
	From string
	// Into is the directory that keeps the binaries.
	Into string
	// Megabytes is about how large the download is.
	Megabytes int
}

// String is for the person who waits for it.
func (d Download) String() string {
	return fmt.Sprintf("there is no PostgreSQL on this machine: fetching PostgreSQL %s from %s into %s, once; about %d MB, seconds on a fast line and %d minutes at 1 Mbit/s",
		d.Version, d.From, d.Into, d.Megabytes, (d.Megabytes*8+59)/60)
}

// Obtain is Find, and where that finds nothing fetches PostgreSQL server binaries for this system over the network and
// keeps them, so that the next Find has them. Before it fetches it calls announce. Several processes may fetch at a time.
// If nothing could be fetched either, the error matches ErrNotFound.
//
// The download itself cannot be interrupted: when ctx ends Obtain returns at once, and the
// download goes on in the background until it is done and is then thrown away.
func Obtain(ctx context.Context, announce func(Download)) (Binaries, error) {
	b, err := Find()
	if !errors.Is(err, ErrNotFound) || !supported {
		return b, err
	}
	cache, noCache := cacheDir()
	if noCache != nil {
		return Binaries{}, fmt.Errorf("%w; and %w", err, noCache)
	}
	announce(Download{Version: strings.TrimSuffix(string(fetchVersion), ".0"), From: fetchFrom, Into: cache, Megabytes: archiveMegabytes()})
	f := fetcher{adjust: func(c embedded.Config) embedded.Config { return c.BinaryRepositoryURL(fetchFrom) }, tidied: func() {}}
	if b, err = f.fetch(ctx, cache); err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w, and fetching failed: %w", ErrNotFound, err)
	}
	return b, err
}

// archiveMegabytes is about how large the archive for this system is.
func archiveMegabytes() int {
	if runtime.GOOS == "darwin" {
		return 30
	}
	return 15
}

// cacheDir is where fetched binaries are kept. PostgreSQL refuses to run as root, so root starts it as another user, and
// root's own cache is closed to others.
func cacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/postrider", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("there is no folder to keep a fetched PostgreSQL in: %w", err)
	}
	return filepath.Join(dir, "postrider"), nil
}

// fetchedDir is where the programs are that were fetched, if any were.
func fetchedDir() (string, error) {
	cache, err := cacheDir()
	return filepath.Join(installed(cache), "bin"), err
}

// installed is the folder of a fetched PostgreSQL in a cache.
func installed(cache string) string {
	return filepath.Join(cache, "postgresql-"+string(fetchVersion))
}

// fetcher fetches, with what its tests decide.
type fetcher struct {
	adjust func(embedded.Config) embedded.Config // the last word on the library's configuration
	tidied func()                                // called when nothing of the download is left
}

func (f fetcher) fetch(ctx context.Context, cacheDir string) (Binaries, error) {
	cacheDir, err := filepath.Abs(cacheDir)
	if err != nil {
		return Binaries{}, fmt.Errorf("pgserver: cache directory: %w", err)
	}
	final := installed(cacheDir)
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
		_ = d.remove() // the process may end with this error, before the goroutine comes to it
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
	// The library first listens on its port, to see that it is free. It comes no further than the extracted files, and port 0 is
	// always free.
	d.config = adjust(embedded.DefaultConfig().Version(fetchVersion).Port(0).Logger(io.Discard).
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
