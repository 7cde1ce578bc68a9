package packaging

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestCIRunsTheTargets: the hosted CI runs what people run. Each make target of the workflow is one of the Makefile, the
// targets that decide about a change are there, the image of the tests has the compiler of go.mod, and a release waits for
// all jobs.
func TestCIRunsTheTargets(t *testing.T) {
	t.Parallel()
	var workflow struct {
		Jobs map[string]struct {
			Container string
			If        string
			Needs     []string
			Env       map[string]string
			Steps     []struct{ Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, ".github", "workflows", "ci.yml"))), &workflow); err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, filepath.Join(root, "Makefile")), -1) {
		targets = append(targets, m[1])
	}
	run := map[string]string{} // which job runs a target
	for name, job := range workflow.Jobs {
		for _, step := range job.Steps {
			for _, m := range regexp.MustCompile(`\bmake ([a-z-]+)`).FindAllStringSubmatch(step.Run, -1) {
				run[m[1]] = name
				if !slices.Contains(targets, m[1]) {
					t.Errorf("job %s runs make %s, and the Makefile has no such target", name, m[1])
				}
			}
		}
		if name != "release" && !slices.Contains(workflow.Jobs["release"].Needs, name) {
			t.Errorf("a release does not wait for the job %s", name)
		}
	}
	for _, target := range []string{"verify", "test", "versions", "vuln", "release-check", "release"} {
		if run[target] == "" {
			t.Errorf("no job runs make %s", target)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^make ([a-z-]+)$`).FindAllStringSubmatch(read(t, filepath.Join(root, ".ci", "run")), -1) {
		if run[m[1]] == "" {
			t.Errorf(".ci/run runs make %s, and the workflow does not", m[1])
		}
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, filepath.Join(root, "go.mod")))
	test := workflow.Jobs[run["test"]]
	if !strings.HasPrefix(test.Container, "golang:"+language[1]+"-") || test.Env["POSTRIDER_TEST_REQUIRE_ALL"] != "1" {
		t.Errorf("the tests run in %s with %v; go.mod says Go %s, and nothing may be left out", test.Container, test.Env, language[1])
	}
	if !strings.Contains(workflow.Jobs["release"].If, "refs/tags/v") {
		t.Errorf("a release is made if %q", workflow.Jobs["release"].If)
	}
}

// allTests is the text of every test of the module.
func allTests(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, "_test.go") {
			all.WriteString(read(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestPagesNameTestsThatExist: what a page says is held by a test is held by one.
func TestPagesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(allTests(t), -1) {
		tests[m[1]] = true
	}
	for _, name := range []string{"stability.md", "faults.md", "../CONTRIBUTING.md"} {
		named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(page(t, name), -1)
		if len(named) < 5 {
			t.Errorf("%s names only %d tests", name, len(named))
		}
		for _, m := range named {
			if !tests[m[1]] {
				t.Errorf("%s: there is no %s", name, m[1])
			}
		}
	}
}
