//go:build unix && !aix && !solaris

package pgserver

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// repository serves, in place of the library's, an archive with three shell scripts in the
// places of PostgreSQL's programs (testdata/binaries.txz: a tar of bin and share, as xz).
func repository(t *testing.T, downloads *atomic.Int32) *httptest.Server {
	t.Helper()
	content, err := os.ReadFile("testdata/binaries.txz")
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	archive := zip.NewWriter(&jar)
	file, err := archive.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(jar.Bytes())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			_, _ = w.Write([]byte(hex.EncodeToString(sum[:])))
			return
		}
		downloads.Add(1)
		_, _ = w.Write(jar.Bytes())
	}))
	t.Cleanup(server.Close)
	return server
}

// fetcherFrom is a fetcher of a repository, and a channel that is closed when the fetcher has tidied up.
func fetcherFrom(url string) (fetcher, chan struct{}) {
	tidied := make(chan struct{})
	return fetcher{
		adjust: func(c embedded.Config) embedded.Config { return c.BinaryRepositoryURL(url) },
		tidied: func() { close(tidied) },
	}, tidied
}

// entries lists a directory.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestFetch(t *testing.T) {
	t.Parallel()
	var downloads atomic.Int32
	server := repository(t, &downloads)
	cache := filepath.Join(t.TempDir(), "cache")
	f, tidied := fetcherFrom(server.URL)
	b, err := f.fetch(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	<-tidied
	want := Binaries{Dir: filepath.Join(cache, "postgresql-"+string(fetchVersion), "bin"), Version: "17.99", Major: 17}
	if b != want {
		t.Errorf("%+v, want %+v", b, want)
	}
	if info, err := os.Stat(filepath.Dir(b.Dir)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the binaries are not for every user: %v, %v", info.Mode(), err)
	}
	if names := entries(t, cache); len(names) != 1 {
		t.Errorf("the cache holds %v", names)
	}
	again, err := f.fetch(t.Context(), cache) // which would close tidied a second time
	if err != nil || again != want || downloads.Load() != 1 {
		t.Errorf("the second time: %+v, %v, %d downloads", again, err, downloads.Load())
	}
}

func TestDownloadSaysWhatItCosts(t *testing.T) {
	t.Parallel()
	said := Download{Version: "17.5", From: "https://repository", Into: "/cache", Megabytes: 15}.String()
	for _, want := range []string{"PostgreSQL 17.5", "from https://repository", "into /cache", "15 MB", "2 minutes"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
}

func TestFetchFails(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	cache := t.TempDir()
	f, tidied := fetcherFrom(server.URL)
	_, err := f.fetch(t.Context(), cache)
	<-tidied
	if err == nil || !strings.Contains(err.Error(), "no version found") || !strings.Contains(err.Error(), BinEnv) {
		t.Errorf("%v", err)
	}
	if names := entries(t, cache); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

func TestFetchCalledOff(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	cache := t.TempDir()
	f, tidied := fetcherFrom(server.URL)
	_, err := f.fetch(ctx, cache)
	if err == nil || ctx.Err() == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("%v", err)
	}
	close(answer)
	<-tidied
	if names := entries(t, cache); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}
