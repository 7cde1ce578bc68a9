// Package npmtest gets what tests need from npm. Node is no part of Postrider, so a test that cannot have it is left out.
package npmtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/logtest"
)

// Install copies a folder with a package.json and its lockfile to the user's cache and has npm install what the lockfile
// names, without scripts. It returns the copy. The copy is kept for the next time, until a file of the folder changes.
func Install(t testing.TB, folder, name string) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			logtest.NotTested(t, "there is no "+program+"; install Node.js 20 or newer")
		}
	}
	identity, files := sha256.New(), map[string][]byte{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == "out") { // of a person who tries it out there
			return fs.SkipDir
		}
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(filepath.Join(folder, path))
		fmt.Fprintf(identity, "%s %d\n%s", path, len(raw), raw)
		files[path] = raw
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(cache, "postrider", fmt.Sprintf("%s-%x", name, identity.Sum(nil)[:8]))
	if _, err := os.Stat(kept); err == nil {
		return kept
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(kept), name+"-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(fresh) }) // where the rename has not taken it
	for path, raw := range files {
		path = filepath.Join(fresh, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, raw, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	install.Dir = fresh
	if out, err := install.CombinedOutput(); err != nil {
		logtest.NotTested(t, fmt.Sprintf("npm ci failed (%v):\n%s", err, out))
	}
	if err := os.Rename(fresh, kept); err != nil && !errors.Is(err, os.ErrExist) {
		if _, there := os.Stat(kept); there != nil { // another test process was faster
			t.Fatal(err)
		}
	}
	return kept
}
