package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A release is of a commit with a tag that is a version, in a tree without changes.
func TestTagged(t *testing.T) {
	folder := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-31T10:00:00Z", "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	refused := func(why string) {
		t.Helper()
		if tag, _, err := tagged(folder); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q, %v; want an error that says %q", tag, err, why)
		}
	}
	file := filepath.Join(folder, "file")
	git("init", "-q")
	if err := os.WriteFile(file, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	git("add", "file")
	git("commit", "-q", "-m", "one")
	refused("git tag v1.2.3")
	git("tag", "other")
	refused("git tag v1.2.3")
	git("tag", "v1.2")
	refused("v1.2 is no version")
	git("tag", "-d", "v1.2")
	git("tag", "v1.2.3")
	if tag, at, err := tagged(folder); err != nil || tag != "v1.2.3" || !at.Equal(time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("%s %v %v", tag, at, err)
	}
	if err := os.WriteFile(file, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("M file")
	git("checkout", "-q", "file")
	if err := os.WriteFile(file+".go", []byte("package x"), 0o600); err != nil { // it would be compiled
		t.Fatal(err)
	}
	refused("?? file.go")
	if err := os.Remove(file + ".go"); err != nil {
		t.Fatal(err)
	}
	git("commit", "-q", "--allow-empty", "-m", "two")
	refused("no tag")
}

func TestNotes(t *testing.T) {
	changelog := []byte("# Changelog\n\n## Unreleased\n\nNot yet.\n\n## v1.10.0\n\nTen.\n\n## v1.1.0 (2026-01-31)\n\n- One.\n\n**B**\n\n- Two.\n\n## v1.0.0\n")
	for tag, want := range map[string]string{"v1.1.0": "- One.\n\n**B**\n\n- Two.\n", "v1.10.0": "Ten.\n", "v1.1.0-rc.1": "- One.\n\n**B**\n\n- Two.\n", "v2.0.0-rc.1": "Not yet.\n"} {
		if got, err := notes(changelog, tag); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", tag, got, err)
		}
	}
	for _, tag := range []string{"v1.0.0", "v2.0.0", "v1.1"} { // empty, and not there
		if got, err := notes(changelog, tag); err == nil || !strings.Contains(err.Error(), `"## `+tag+`"`) {
			t.Errorf("%s: %q, %v", tag, got, err)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"-out", "x", "more"}, {"-out", "x", "-binaries", "y"}, {"-out", "x", "-version", "v1.2.3"}, {"-out", "x", "-time", "5"}, {"-what"}} {
		if err := run(args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	for _, v := range []string{"1.2.3", "v1.2", "v1.2.3+build", "v01.2.3", "latest"} {
		err := run([]string{"-out", out, "-binaries", "b", "-tools", "t", "-version", v, "-time", "5"})
		if err == nil || !strings.Contains(err.Error(), "is no version") {
			t.Errorf("%s: %v", v, err)
		}
	}
	err := run([]string{"-out", out, "-binaries", t.TempDir(), "-tools", "t", "-version", "v1.2.3", "-time", "5"})
	if err == nil || !strings.Contains(err.Error(), "has no binary") {
		t.Error(err)
	}
}
