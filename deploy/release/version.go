package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// version is how a tag is written (semver.org, without build metadata, which neither images nor tags of charts may have).
var version = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// tagged returns the version of the commit that is checked out, and its time. A tree with changes has none: what is
// given out must be what the tag has.
func tagged(source string) (tag string, at time.Time, err error) {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = source
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
		}
		return strings.TrimSpace(string(out)), nil
	}
	changes, err := git("status", "--porcelain")
	if err != nil {
		return "", at, err
	}
	if changes != "" {
		return "", at, fmt.Errorf("the tree has changes that no commit has; commit or remove them:\n%s", changes)
	}
	tag, err = git("describe", "--tags", "--exact-match", "--match", "v[0-9]*", "HEAD")
	if err != nil {
		return "", at, fmt.Errorf("the commit has no tag that names a version; set one, such as: git tag v1.2.3\n(%w)", err)
	}
	if !version.MatchString(tag) {
		return "", at, fmt.Errorf("the tag %s is no version: write v1.2.3, or v1.2.3-rc.1", tag)
	}
	seconds, err := git("show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return "", at, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	return tag, time.Unix(unix, 0).UTC(), err
}

// notes is the part of the changelog about a version. A version to try, such as v1.2.3-rc.1, may have that of v1.2.3, or
// what is not released.
func notes(changelog []byte, tag string) ([]byte, error) {
	final, _, trial := strings.Cut(tag, "-")
	wanted := []string{tag}
	if trial {
		wanted = append(wanted, final, "Unreleased")
	}
	for _, name := range wanted {
		heading := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(name) + `( .*)?$`).FindIndex(changelog)
		if heading == nil {
			continue
		}
		text := changelog[heading[1]:]
		if next := bytes.Index(text, []byte("\n## ")); next >= 0 {
			text = text[:next]
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			return append(text, '\n'), nil
		}
	}
	return nil, fmt.Errorf("CHANGELOG.md says nothing under the heading %q: operators read there what the version brings", "## "+tag)
}
