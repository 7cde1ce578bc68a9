//go:build unix && !aix && !solaris

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine is what a finder sees: versions by directory, an environment, a PATH.
type machine struct {
	versions map[string]int
	env      string
	initdb   string
	fetched  string
}

func (m machine) finder() finder {
	return finder{
		getenv: func(name string) string {
			if name == BinEnv {
				return m.env
			}
			return ""
		},
		lookPath: func(string) (string, error) {
			if m.initdb == "" {
				return "", errors.New("not in PATH")
			}
			return m.initdb, nil
		},
		glob: func(pattern string) ([]string, error) {
			var dirs []string
			for dir := range m.versions {
				if ok, err := filepath.Match(pattern, dir); err != nil {
					return nil, err
				} else if ok {
					dirs = append(dirs, dir)
				}
			}
			return dirs, nil
		},
		inspect: func(dir string) (Binaries, error) {
			major, ok := m.versions[dir]
			if !ok {
				return Binaries{}, errors.New("no program initdb there")
			}
			return Binaries{Dir: dir, Version: fmt.Sprintf("%d.1", major), Major: major}, nil
		},
		fetched: func() (string, error) {
			if m.fetched == "" {
				return "", errors.New("no cache")
			}
			return m.fetched, nil
		},
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	debian := func(major int) string { return fmt.Sprintf("/usr/lib/postgresql/%d/bin", major) }
	for name, test := range map[string]struct {
		machine machine
		want    string   // the directory
		errs    []string // or in the error
	}{
		"newest of the packages":    {machine{versions: map[string]int{debian(9): 9, debian(16): 16, "/usr/pgsql-15/bin": 15}}, debian(16), nil},
		"PATH before packages":      {machine{versions: map[string]int{"/opt/mine": 14, debian(17): 17}, initdb: "/opt/mine/initdb"}, "/opt/mine", nil},
		"old in PATH":               {machine{versions: map[string]int{"/opt/mine": 12, debian(17): 17}, initdb: "/opt/mine/initdb"}, debian(17), nil},
		"the order before all":      {machine{versions: map[string]int{"/chosen": 15, debian(17): 17}, env: "/chosen", initdb: "/x/initdb"}, "/chosen", nil},
		"a wrong order":             {machine{versions: map[string]int{debian(17): 17}, env: "/missing"}, "", []string{BinEnv + "=/missing", "no program initdb", "unset it"}},
		"an order of an old one":    {machine{versions: map[string]int{"/old": 13}, env: "/old"}, "", []string{"13.1: it is too old", "14 or newer"}},
		"only old ones":             {machine{versions: map[string]int{debian(13): 13}}, "", []string{"no PostgreSQL server binaries found", debian(13), "too old", BinEnv}},
		"Homebrew":                  {machine{versions: map[string]int{"/opt/homebrew/opt/postgresql@16/bin": 16}}, "/opt/homebrew/opt/postgresql@16/bin", nil},
		"fetched earlier":           {machine{versions: map[string]int{"/cache/bin": 17}, fetched: "/cache/bin"}, "/cache/bin", nil},
		"installed, not fetched":    {machine{versions: map[string]int{"/cache/bin": 17, debian(15): 15}, fetched: "/cache/bin"}, debian(15), nil},
		"an empty cache":            {machine{fetched: "/cache/bin"}, "", []string{"no PostgreSQL server binaries found"}},
		"an application on the Mac": {machine{versions: map[string]int{"/Applications/Postgres.app/Contents/Versions/17/bin": 17}}, "/Applications/Postgres.app/Contents/Versions/17/bin", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := test.machine.finder().find()
			if b.Dir != test.want || (err == nil) != (test.errs == nil) {
				t.Fatalf("found %+v, %v", b, err)
			}
			for _, want := range test.errs {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
			if err != nil && errors.Is(err, ErrNotFound) != (test.machine.env == "") {
				t.Errorf("ErrNotFound is for the absence of everything: %v", err)
			}
		})
	}
}

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	sorted := []Binaries{{Version: "14.20", Major: 14}, {Version: "15.3", Major: 15}, {Version: "15.18", Major: 15}, {Version: "18beta1", Major: 18}}
	for i := 1; i < len(sorted); i++ {
		if compareVersions(sorted[i-1], sorted[i]) >= 0 || compareVersions(sorted[i], sorted[i-1]) <= 0 {
			t.Errorf("%s is not before %s", sorted[i-1].Version, sorted[i].Version)
		}
	}
}

// program writes an executable script.
func program(t *testing.T, dir, name, script string) {
	t.Helper()
	file := write(t, "#!/bin/sh\n"+script+"\n", dir, name)
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script  string
		want    Binaries
		problem string
	}{
		"of Debian":   {"echo 'postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)'", Binaries{Version: "15.18", Major: 15}, ""},
		"a beta":      {"echo 'postgres (PostgreSQL) 18beta1'", Binaries{Version: "18beta1", Major: 18}, ""},
		"another one": {"echo 'postgres of the house'", Binaries{}, "names no version"},
		"broken":      {"exit 3", Binaries{}, "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if _, err := inspect(dir); err == nil || !strings.Contains(err.Error(), "no program initdb") {
				t.Errorf("an empty directory: %v", err)
			}
			program(t, dir, "initdb", "exit 1")
			if _, err := inspect(dir); err == nil || !strings.Contains(err.Error(), "no program postgres") {
				t.Errorf("a directory with half of it: %v", err)
			}
			program(t, dir, "postgres", test.script)
			b, err := inspect(dir)
			if test.problem == "" {
				test.want.Dir = dir
			} else if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("want %q: %v", test.problem, err)
			}
			if b != test.want {
				t.Errorf("%+v, %v", b, err)
			}
		})
	}
}
