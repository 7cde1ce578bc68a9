package python

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv/logtest"
)

// installTimeout bounds the first installation of the packages.
const installTimeout = 5 * time.Minute

// interpreter returns a Python that has the packages of requirements.txt, in a virtual environment that is made once
// for them and kept among the user's caches. Where there is no Python, or its packages cannot be had, the test is noted
// as not tested.
func interpreter(t *testing.T) string {
	t.Helper()
	requirements, err := os.ReadFile("requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		logtest.NotTested(t, "there is no python3: install Python 3.10 or newer with its venv module (Debian: python3-venv)")
	}
	version, err := exec.Command(python, "-c", "import sys, venv, ensurepip; print(sys.version); sys.exit(sys.version_info < (3, 10))").CombinedOutput()
	if err != nil {
		logtest.NotTested(t, fmt.Sprintf("%s is too old or has no venv: install Python 3.10 or newer with its venv module (Debian: python3-venv)\n%s", python, version))
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	sum := sha256.Sum256(append(requirements, version...))
	venv := filepath.Join(cache, "postrider", "python-example-"+hex.EncodeToString(sum[:8]))
	ready := filepath.Join(venv, "bin", "python")
	if _, err := os.Stat(ready); err == nil {
		return ready
	}
	// Made aside and put in place whole, so that neither a broken installation nor another test's is ever used.
	if err := os.MkdirAll(filepath.Dir(venv), 0o755); err != nil {
		t.Fatal(err)
	}
	aside, err := os.MkdirTemp(filepath.Dir(venv), "making-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(aside)
	ctx, cancel := context.WithTimeout(t.Context(), installTimeout)
	defer cancel()
	for _, command := range [][]string{
		{python, "-m", "venv", aside},
		{filepath.Join(aside, "bin", "python"), "-m", "pip", "install", "--quiet", "--requirement", "requirements.txt"},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			logtest.NotTested(t, fmt.Sprintf("the packages of requirements.txt cannot be installed: %v\n%s", err, out))
		}
	}
	if err := os.Rename(aside, venv); err != nil {
		if _, exists := os.Stat(ready); exists != nil { // else another test was quicker
			t.Fatal(err)
		}
	}
	return ready
}
