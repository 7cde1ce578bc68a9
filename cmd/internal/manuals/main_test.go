package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/cli"
)

// Every command has a page, which has its help and its flags, and no page has anything of the machine that made it.
func TestPages(t *testing.T) {
	folder := t.TempDir()
	home := filepath.Join(t.TempDir(), "homeofatest")
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	if err := run(folder, "v1.2.3", "2026-01-31"); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	pages := 0
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				look(sub)
			}
		}
		pages++
		text := read(filepath.Join("man", strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		plain := strings.NewReplacer(`\-`, "-", `\&`, "").Replace(text)
		if !strings.Contains(plain, cmd.Short) || !strings.Contains(text, `"Jan 2026" "Postrider v1.2.3" "Postrider"`) {
			t.Errorf("%s: the page begins with %.300s", cmd.CommandPath(), text)
		}
		if strings.Contains(plain, home) {
			t.Errorf("%s: the page names the home folder of the machine that made it", cmd.CommandPath())
		}
	}
	root := cli.Command()
	look(root)
	if pages < 50 {
		t.Errorf("only %d pages", pages)
	}
	if text := read("man/postrider-dlq-requeue.1"); !strings.Contains(strings.ReplaceAll(text, `\-`, "-"), "--target") {
		t.Errorf("a page has no flags: %s", text)
	}

	// The completions are the command's own.
	for shell, name := range map[string]string{"bash": "postrider.bash", "zsh": "_postrider", "fish": "postrider.fish", "powershell": "postrider.ps1"} {
		var out, errs bytes.Buffer
		if code := cli.Run(context.Background(), []string{"completion", shell}, nil, &out, &errs); code != cli.ExitOK || out.String() != read(filepath.Join("completions", name)) {
			t.Errorf("%s is not what postrider completion %s prints (%d, %s)", name, shell, code, errs.String())
		}
	}
}
