package obs

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := NewLogger(&out, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("quiet")
	log.Warn("loud", "err", "x\x1b[2J\n")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["msg"] != "loud" {
		t.Fatalf("one JSON line with loud expected: %v in %q", err, out.String())
	}
	if log, err = NewLogger(&out, "debug", "text"); err != nil {
		t.Fatal(err)
	}
	log.Debug("text", "err", "x\x1b[2J\n")
	if got := out.String(); strings.Contains(got, "\x1b") || strings.Count(got, "\n") != 2 {
		t.Errorf("control characters or broken lines: %q", got)
	}
	for _, c := range [][2]string{{"loud", "json"}, {"info", "xml"}} {
		if _, err := NewLogger(&out, c[0], c[1]); err == nil {
			t.Errorf("%v is accepted", c)
		}
	}
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	families, err := NewRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, want := range []string{"postrider_build_info", "go_goroutines", "process_start_time_seconds"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing in %v", want, names)
		}
	}
	if b := ReadBuild(); b.Version == "" || b.Go == "" {
		t.Errorf("build %+v", b)
	}
}
