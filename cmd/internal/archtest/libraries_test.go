package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLibrariesHaveAReason: DESIGN.md names every module that is required directly, and no other.
func TestLibrariesHaveAReason(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, section, found := strings.Cut(read("DESIGN.md"), "\n## Libraries\n")
	if !found {
		t.Fatal("DESIGN.md has no section Libraries")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	named := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.+?) \|`).FindAllStringSubmatch(section, -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			named[m[1]] = true
		}
	}
	version := regexp.MustCompile(`/v\d+$`)
	required := 0
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(read("go.mod"), -1) {
		name := strings.TrimPrefix(version.ReplaceAllString(m[1], ""), "github.com/")
		required++
		if !named[name] {
			t.Errorf("the section Libraries of DESIGN.md does not name `%s`: say there what it does for us", name)
		}
		delete(named, name)
	}
	for name := range named {
		t.Errorf("the section Libraries of DESIGN.md names `%s`, which go.mod does not require", name)
	}
	if required < 20 {
		t.Errorf("only %d requirements were found", required)
	}
}
