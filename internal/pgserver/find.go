package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BinEnv names the environment variable with the directory of the binaries to use.
const BinEnv = "POSTRIDER_POSTGRES_BIN"

// ErrNotFound says that this machine has no usable PostgreSQL server installed.
var ErrNotFound = errors.New("no PostgreSQL server binaries found")

// Binaries is an installed PostgreSQL server.
type Binaries struct {
	// Dir holds the programs initdb and postgres.
	Dir string
	// Version is the version that postgres reports, for example "15.18" or "18beta1".
	Version string
	// Major is the number that data directories depend on.
	Major int
}

// Find looks for PostgreSQL server binaries on this machine: the directory in
// POSTRIDER_POSTGRES_BIN, the one of initdb in PATH, then, newest first, the places where the
// packages of Debian and Ubuntu, of Red Hat and SUSE, of Homebrew and Postgres.app put them; and
// last what Obtain fetched earlier.
// The environment variable is an order: when it is set and wrong, that is an error and nothing
// else is tried. When there is nothing, the error matches ErrNotFound and says where it looked.
func Find() (Binaries, error) {
	f := finder{getenv: os.Getenv, lookPath: exec.LookPath, glob: filepath.Glob, inspect: inspect, fetched: fetchedDir}
	return f.find()
}

// places are the directories of packages, as patterns.
var places = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/lib/postgresql*/bin",
	"/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
}

// finder is Find with its view of the machine made replaceable.
type finder struct {
	getenv   func(string) string
	lookPath func(string) (string, error)
	glob     func(string) ([]string, error)
	inspect  func(dir string) (Binaries, error)
	fetched  func() (string, error)
}

func (f finder) find() (Binaries, error) {
	if dir := f.getenv(BinEnv); dir != "" {
		b, err := f.usable(dir)
		if err != nil {
			return Binaries{}, fmt.Errorf("pgserver: %s=%s: %w; set it to the directory of initdb and postgres, or unset it", BinEnv, dir, err)
		}
		return b, nil
	}
	var refused []string
	if initdb, err := f.lookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(initdb); err == nil {
			initdb = real
		}
		b, err := f.usable(filepath.Dir(initdb))
		if err == nil {
			return b, nil
		}
		refused = append(refused, fmt.Sprintf("%s (in PATH): %v", filepath.Dir(initdb), err))
	}
	var found []Binaries
	for _, pattern := range places {
		dirs, err := f.glob(pattern)
		if err != nil {
			return Binaries{}, fmt.Errorf("pgserver: look in %s: %w", pattern, err)
		}
		for _, dir := range dirs {
			b, err := f.usable(dir)
			if err != nil {
				refused = append(refused, fmt.Sprintf("%s: %v", dir, err))
				continue
			}
			found = append(found, b)
		}
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, compareVersions), nil
	}
	if dir, err := f.fetched(); err == nil {
		if b, err := f.usable(dir); err == nil {
			return b, nil
		}
	}
	detail := ""
	if len(refused) > 0 {
		detail = "; not usable: " + strings.Join(refused, "; ")
	}
	return Binaries{}, fmt.Errorf("pgserver: %w in %s, PATH and %s%s; install PostgreSQL %d or newer, or set %s to its bin directory",
		ErrNotFound, BinEnv, strings.Join(places, ", "), detail, MinMajor, BinEnv)
}

// usable inspects a directory and refuses what Unfit does.
func (f finder) usable(dir string) (Binaries, error) {
	b, err := f.inspect(dir)
	if err != nil {
		return Binaries{}, err
	}
	if why, remedy := Unfit(b.Version); why != "" {
		return Binaries{}, fmt.Errorf("PostgreSQL %s: %s; %s", b.Version, why, remedy)
	}
	return b, nil
}

func compareVersions(a, b Binaries) int {
	if a.Major != b.Major {
		return a.Major - b.Major
	}
	return minor(a.Version) - minor(b.Version)
}

var versionLine = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// inspect asks the postgres in dir for its version.
func inspect(dir string) (Binaries, error) {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return Binaries{}, fmt.Errorf("no program %s there: %w", program, err)
		}
	}
	const limit = 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if ctx.Err() != nil { // err would only say "killed", which we did
		return Binaries{}, fmt.Errorf("postgres --version did not answer within %v; is the machine overloaded?", limit)
	}
	if err != nil {
		return Binaries{}, fmt.Errorf("ask postgres for its version: %w", err)
	}
	match := versionLine.FindSubmatch(out)
	if match == nil {
		return Binaries{}, fmt.Errorf("postgres --version answers %q, which names no version", strings.TrimSpace(string(out)))
	}
	major, err := strconv.Atoi(string(match[2]))
	if err != nil {
		return Binaries{}, fmt.Errorf("postgres --version answers %q: %w", strings.TrimSpace(string(out)), err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Binaries{}, err
	}
	return Binaries{Dir: abs, Version: string(match[1]), Major: major}, nil
}
