package packaging

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/postrider/postrider/cmd/internal/cli"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/replay"
)

const root = "../../.."

// pages are for people who use Postrider or run it, by their way from the folder docs.
var pages = []string{"../README.md", "../CHANGELOG.md", "../SECURITY.md",
	"writing.md", "reading.md", "running.md", "settings.md", "security.md", "operating.md", "runbook.md", "dead-letters.md", "desk.md", "tasks.md", "tasks-workflows.md",
	"upgrading.md", "restoring.md", "removing.md", "stability.md", "faults.md", "../deploy/helm/postrider/README.md"}

func page(t *testing.T, name string) string {
	t.Helper()
	return read(t, filepath.Join(root, "docs", name))
}

var (
	link = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	span = regexp.MustCompile("`([^`\n]+)`")
	head = regexp.MustCompile(`(?m)^#+ (.+)$`)
	path = regexp.MustCompile(`^(?:deploy|docs|scripts|cmd|internal|examples|outbox|outboxsync|consumer|message|retry)/[\w./-]+$`)
)

// anchors are what a link may name of a page, as they are made of its headings.
func anchors(text string) (all []string) {
	for _, m := range head.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

// Every file, and every heading, that a page links to or names is there.
func TestPagesNameFilesThatExist(t *testing.T) {
	t.Parallel()
	headings := 0
	design, err := filepath.Glob(filepath.Join(root, "docs", "design", "*.md"))
	if err != nil || len(design) == 0 {
		t.Fatalf("no pages about the design: %v", err)
	}
	all := append(slices.Clip(pages), "../DESIGN.md", "../CONTRIBUTING.md")
	for _, name := range design {
		all = append(all, filepath.Join("design", filepath.Base(name)))
	}
	for _, name := range all {
		var files []string
		for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(page(t, name), ""), -1) {
			to := name
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(name), m[1])
				files = append(files, filepath.Join(root, "docs", to))
			}
			if m[2] == "" {
				continue
			}
			if headings++; !slices.Contains(anchors(page(t, to)), m[2]) {
				t.Errorf("%s links to #%s of %s, which has no such heading", name, m[2], to)
			}
		}
		for _, m := range span.FindAllStringSubmatch(page(t, name), -1) {
			if path.MatchString(m[1]) {
				files = append(files, filepath.Join(root, m[1]))
			}
		}
		if len(files) == 0 && slices.Contains(pages, name) {
			t.Errorf("%s names no file", name)
		}
		for _, f := range files {
			if _, err := os.Stat(f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if headings < 10 {
		t.Errorf("only %d links to headings were found", headings)
	}
}

var setting = regexp.MustCompile(`^([a-z]+)\.([a-z_]+)$`)

// Every setting that a page names is one, by its key as by its variable.
func TestPagesNameSettingsThatExist(t *testing.T) {
	t.Parallel()
	sections, keys := map[string]bool{}, map[string]bool{}
	for _, k := range config.Keys() {
		sections[k.Section], keys[k.String()], keys[k.Env()] = true, true, true
	}
	seen := 0
	for _, name := range pages {
		for _, m := range span.FindAllStringSubmatch(page(t, name), -1) {
			word, _, _ := strings.Cut(m[1], "=")
			key := setting.FindStringSubmatch(word)
			isVariable := regexp.MustCompile(`^(DATABASE|KAFKA|OUTBOX|DLQ|COLLECTOR|STALENESS|ARCHIVE|TRACING|HTTP)_[A-Z_]+$`).MatchString(word)
			if !isVariable && (key == nil || !sections[key[1]] || key[2] == "md" || key[2] == "yaml") {
				continue
			}
			seen++
			if !keys[word] {
				t.Errorf("%s: there is no setting %s", name, word)
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d settings were found", seen)
	}
}

var (
	commandSpan = regexp.MustCompile("(?m)`(postrider [^`]+)`|^(?:    (?:[A-Z_]+=[^ ]+ )?|bin/)(postrider .+)$")
	flagName    = regexp.MustCompile(`^--[a-z-]+`)
	commandWord = regexp.MustCompile(`^[a-z-]+$`)
)

// Every command that a page names is there, with the flags that it names.
func TestPagesNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range pages {
		for _, span := range commandSpan.FindAllStringSubmatch(strings.ReplaceAll(page(t, p), "\n`", " `"), -1) {
			command, _, _ := strings.Cut(span[1]+span[2], " #")
			var path, flags []string
			begun := false // with the flags
			for _, w := range strings.Fields(command)[1:] {
				w = strings.TrimPrefix(w, "[")
				begun = begun || strings.HasPrefix(w, "-")
				if f := flagName.FindString(w); f != "" {
					flags = append(flags, f)
				} else if !begun && commandWord.MatchString(w) {
					path = append(path, w)
				}
			}
			var help, errs bytes.Buffer
			name := "postrider " + strings.Join(path, " ")
			seen[p+name] = true
			if code := cli.Run(context.Background(), append(path, "--help"), nil, &help, &errs); code != cli.ExitOK || !strings.Contains(help.String(), "\n  "+name) {
				t.Errorf("%s: there is no %s: exit code %d\n%s%s", p, name, code, help.String(), errs.String())
				continue
			}
			for _, f := range flags {
				if !strings.Contains(help.String(), f) {
					t.Errorf("%s: %s has no flag %s", p, name, f)
				}
			}
		}
	}
	if len(seen) < 60 {
		t.Errorf("only %d commands were found: %v", len(seen), seen)
	}
}

// flagsOf adds the flags of a command, and of the commands below it, to all.
func flagsOf(t *testing.T, path []string, all map[string]bool) {
	t.Helper()
	var help, errs bytes.Buffer
	if code := cli.Run(context.Background(), append(slices.Clone(path), "--help"), nil, &help, &errs); code != cli.ExitOK {
		t.Fatalf("%v --help: exit code %d\n%s", path, code, &errs)
	}
	for _, f := range regexp.MustCompile(`(?m)(?:^ +(?:-\w, )?|; also )(--[a-z-]+)`).FindAllStringSubmatch(help.String(), -1) {
		all[f[1]] = true
	}
	_, commands, _ := strings.Cut(help.String(), "\nCommands:\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	for line := range strings.Lines(commands) {
		if name := strings.Fields(line)[0]; name != "completion" && name != "help" {
			flagsOf(t, append(slices.Clone(path), name), all)
		}
	}
}

// Every flag that a page names without its command is one of some command.
func TestPagesNameFlagsThatExist(t *testing.T) {
	t.Parallel()
	all := map[string]bool{"--no-hooks": true} // of Helm
	flagsOf(t, nil, all)
	seen := 0
	for _, name := range pages {
		for _, m := range span.FindAllStringSubmatch(page(t, name), -1) {
			f := flagName.FindString(m[1])
			if f == "" {
				continue
			}
			if seen++; !all[f] {
				t.Errorf("%s: no command has a flag %s", name, f)
			}
		}
	}
	if seen < 20 || len(all) < 100 {
		t.Errorf("only %d flags were found, and %d that there are", seen, len(all))
	}
}

// The page about rights names the roles that the script makes, and the default names in Kafka that the ACLs are for.
func TestHardeningNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	text := page(t, "security.md")
	grants, err := migrations.Grants(migrations.Parts())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range grants {
		names = append(names, g.Role)
	}
	names = append(names, replay.GroupPrefix)
	for _, k := range config.Keys() {
		if slices.Contains([]string{"dlq.topic", "dlq.group", "tasks.lifecycle_topic"}, k.String()) {
			names = append(names, k.Default)
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if !strings.Contains(text, name) {
			t.Errorf("docs/security.md does not name %s", name)
		}
	}
}
