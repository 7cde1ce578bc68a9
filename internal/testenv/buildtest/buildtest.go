// Package buildtest compiles commands of this module for the tests that run them as processes. Each command is compiled
// once in a run of tests and not once in a test: linking it takes seconds.
package buildtest

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// EnvDir names the folder in which the test processes of a run share what they compile. scripts/test.sh makes it.
// Without it each test process has a folder of its own.
const EnvDir = "POSTRIDER_TEST_BINARIES"

const module = "github.com/postrider/postrider/"

// Runner is the part of *testing.M that runs tests.
type Runner interface{ Run() int }

// In returns what runs the tests of a package that calls [Program], and removes what they compiled:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(buildtest.In(m)) }
func In(m Runner) Runner { return runner{m} }

type runner struct{ tests Runner }

func (r runner) Run() int {
	if os.Getenv(EnvDir) != "" {
		return r.tests.Run()
	}
	dir, err := os.MkdirTemp("", "postrider-binaries-")
	if err == nil {
		err = os.Setenv(EnvDir, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "buildtest:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	return r.tests.Run()
}

// building lets one test of a process compile while the others wait for what it makes.
var building sync.Mutex

// Program returns the path of a command of this module, given by its folder, such as "cmd/postrider".
func Program(t testing.TB, command string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	dir, name := os.Getenv(EnvDir), path.Base(command)
	if dir == "" {
		t.Fatal("buildtest: nothing would remove the program: let the package's TestMain use buildtest.In")
	}
	kept := filepath.Join(dir, strings.ReplaceAll(command, "/", "_"))
	program := filepath.Join(kept, name)
	if _, err := os.Stat(program); err == nil {
		return program
	}
	fresh, err := os.MkdirTemp(dir, "building-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(fresh, name), module+command).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", command, err, out)
	}
	if err := os.Rename(fresh, kept); err != nil {
		if _, missing := os.Stat(program); missing != nil { // else another test process was faster
			t.Fatal(err)
		}
	}
	return program
}
