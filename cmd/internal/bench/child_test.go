package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestChildThatEndsTooSoon(t *testing.T) {
	t.Parallel()
	c, err := startChild(exec.CommandContext(t.Context(), "false"), "a failing one")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ready(); err == nil || !strings.Contains(err.Error(), "a failing one ended before it was asked to") {
		t.Errorf("got %v", err)
	}
}

// A caller that waits for something that only a child can bring about learns that the child is gone, and which.
func TestAlive(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "cat")
	c, err := startChild(cmd, "the cat")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := alive(t.Context(), c)
	defer cancel()
	if ctx.Err() != nil {
		t.Error("the child is taken for dead while it lives")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := because(ctx, ctx.Err()); err == nil || !strings.Contains(err.Error(), "the cat ended before it was asked to") {
		t.Errorf("the reason is %v", err)
	}
	if because(ctx, nil) != nil {
		t.Error("what went well failed")
	}
	if c.wait() == nil {
		t.Error("a killed child ended well")
	}
}

// A child ends with its parent's end of the pipe, whatever becomes of the parent.
func TestGateEndsWithStdin(t *testing.T) {
	t.Parallel()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ctx, g := newGate(t.Context(), in)
	if _, err := out.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	<-g.opened
	if ctx.Err() != nil {
		t.Error("the word itself ends the child")
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}
