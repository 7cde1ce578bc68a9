package logtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// outcome is how a test ended that was given instead of the real one.
type outcome struct {
	testing.TB
	failed, skipped bool
}

func (o *outcome) Name() string { return "TestOfAMachine" }

func (o *outcome) Skip(...any) { o.skipped = true; runtime.Goexit() }

func (o *outcome) Fatalf(string, ...any) { o.failed = true; runtime.Goexit() }

// TestWhatIsLeftOut: it is noted, and it is a failure where everything is required, unless it is a Docker engine.
func TestWhatIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		leave           func(testing.TB, string)
		required        string
		failed, skipped bool
	}{
		"a test":                            {NotTested, "", false, true},
		"a test, with the variable off":     {NotTested, "0", false, true},
		"a part of a test":                  {LeftOut, "", false, false},
		"Docker":                            {NoDocker, "", false, true},
		"a test that is required":           {NotTested, "1", true, false},
		"a part that is required":           {LeftOut, "1", true, false},
		"Docker where all else is required": {NoDocker, "1", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "left-out")
			t.Setenv(EnvNotTested, path)
			t.Setenv(EnvRequireAll, c.required)
			got := &outcome{TB: t}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				c.leave(got, "no such tool\nand more")
			}()
			<-ended
			if got.failed != c.failed || got.skipped != c.skipped {
				t.Errorf("failed %v, skipped %v", got.failed, got.skipped)
			}
			want := fmt.Sprintln("TestOfAMachine: no such tool")
			if c.failed {
				want = ""
			}
			if noted, _ := os.ReadFile(path); string(noted) != want {
				t.Errorf("noted is %q, want %q", noted, want)
			}
		})
	}
}
