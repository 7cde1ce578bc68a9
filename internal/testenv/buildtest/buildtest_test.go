package buildtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(In(m).Run()) }

// TestProgram: tests that ask at the same time get one program, and it runs.
func TestProgram(t *testing.T) {
	t.Parallel()
	var asking sync.WaitGroup
	paths := make([]string, 3)
	for i := range paths {
		asking.Go(func() { paths[i] = Program(t, "cmd/internal/sbom") })
	}
	asking.Wait()
	if filepath.Base(paths[0]) != "sbom" || paths[1] != paths[0] || paths[2] != paths[0] {
		t.Fatalf("%q", paths)
	}
	out, err := exec.CommandContext(t.Context(), paths[0], paths[0]).Output()
	if err != nil || !strings.Contains(string(out), "CycloneDX") {
		t.Errorf("%v: %.200s", err, out)
	}
	if left, err := filepath.Glob(filepath.Join(os.Getenv(EnvDir), "building-*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}
