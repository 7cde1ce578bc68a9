package task

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the golden files should say")

// Each file in testdata/mistakes has many mistakes; the file beside it has the messages about them.
func TestMistakesAreToldAllAtOnce(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("only %d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(filepath.Base(file), data)
		var invalid *InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", file, err)
			continue
		}
		golden := strings.TrimSuffix(file, ".yaml") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got := invalid.Error() + "\n"; got != string(want) {
			t.Errorf("%s says:\n%s\nwant:\n%s", file, got, want)
		}
	}
}
