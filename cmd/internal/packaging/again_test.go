package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Red tests of a whole run have another chance alone. The tests are decided by a program that stands in for go.
func TestRedTestsRunAgain(t *testing.T) {
	t.Parallel()
	const fail, path = "--- FAIL: TestA (1.00s)\n", "github.com/postrider/postrider/"
	red := fail + "FAIL\nFAIL\t" + path + "cmd/internal/cli\t3.1s\n"
	for name, c := range map[string]struct {
		log   string
		alone string // how a test ends that runs alone
		ok    bool
		says  string
	}{
		"green alone":     {red, "exit 0", true, "UNSTEADY"},
		"red alone":       {red, "exit 1", false, ""},
		"three":           {"--- FAIL: TestB (1s)\n--- FAIL: TestC (1s)\n" + red, "exit 0", true, path + "cmd/internal/cli TestB"},
		"four":            {"--- FAIL: TestB (1s)\n--- FAIL: TestC (1s)\n--- FAIL: TestD (1s)\n" + red, "exit 0", false, "up to three"},
		"two packages":    {red + strings.ReplaceAll(red, "cli", "console"), "exit 0", true, path + "cmd/internal/console TestA"},
		"wrong history":   {"    x_test.go:1: the history is wrong: 1 lost\n" + red, "exit 0", false, "wrong history"},
		"data race":       {"WARNING: DATA RACE\n" + red, "exit 0", false, "data race"},
		"panic":           {"panic: test timed out after 20m0s\n" + red, "exit 0", false, "panic"},
		"not built":       {"FAIL\t" + path + "cmd/internal/cli [build failed]\n", "exit 0", false, "not built"},
		"ended by itself": {"FAIL\t" + path + "cmd/internal/cli\t3.1s\n", "exit 0", false, "packages that ended"},
		"killed":          {fail + "signal: killed\nFAIL\t" + path + "cmd/internal/cli\t3.1s\n", "exit 0", false, "packages that ended"},
		"domain":          {strings.ReplaceAll(red, "cmd/internal/cli", "internal/dlq"), "exit 0", false, "domain"},
		"beside domain":   {strings.ReplaceAll(red, "cmd/internal/cli", "internal/dlq/postgres"), "exit 0", true, "UNSTEADY"},
		"nothing in it":   {"ok\t" + path + "cmd/internal/cli\t3.1s\n", "exit 0", false, "packages that ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log := filepath.Join(dir, "test.log")
			write(t, log, c.log, 0o600)
			write(t, filepath.Join(dir, "go"), "#!/bin/sh\necho go \"$@\"\n"+c.alone+"\n", 0o700)
			cmd := exec.Command("../../../scripts/again.sh", log, "-race")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "DOMAIN="+path+"message "+path+"internal/dlq ")
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok || !strings.Contains(string(out), c.says) {
				t.Errorf("%v, and it says\n%s", err, out)
			}
			if c.ok && !strings.Contains(string(out), "go test -race -count=3 -failfast -run ^TestA$ "+path) {
				t.Errorf("TestA was not run again:\n%s", out)
			}
		})
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
