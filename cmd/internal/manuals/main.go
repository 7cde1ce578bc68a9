// Command manuals writes the manual pages of postrider's commands and its completions for shells, as a release has them.
// The pages are made of the commands' own help.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra/doc"

	"github.com/postrider/postrider/cmd/internal/cli"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: manuals FOLDER VERSION DATE, such as manuals out v1.2.3 2026-01-31")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "manuals:", err)
		os.Exit(1)
	}
}

// run writes man/*.1 and completions/* into the folder, for a version of this date.
func run(folder, version, date string) error {
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return err
	}
	man, completions := filepath.Join(folder, "man"), filepath.Join(folder, "completions")
	if err := errors.Join(os.MkdirAll(man, 0o755), os.MkdirAll(completions, 0o755)); err != nil {
		return err
	}
	root := cli.Command()
	root.DisableAutoGenTag = true // the day on which it was made
	header := doc.GenManHeader{Section: "1", Date: &at, Source: "Postrider " + version, Manual: "Postrider"}
	if err := doc.GenManTree(root, &header, man); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{
		"postrider.bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"_postrider":     root.GenZshCompletion,
		"postrider.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
		"postrider.ps1":  root.GenPowerShellCompletionWithDesc,
	} {
		f, err := os.Create(filepath.Join(completions, name))
		if err != nil {
			return err
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
