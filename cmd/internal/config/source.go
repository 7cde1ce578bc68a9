package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/yamldoc"
)

const (
	// sourcesSection is the list of sources in the file, and sourcesDirKey the folder with one file for each further source.
	sourcesSection = "sources"
	sourcesDirKey  = "sources_dir"
)

// MainSource is the name of the source that database.url leads to. No other source has it.
const MainSource = dlq.MainSource

// mostSources is how many sources one installation may have.
const mostSources = 500

// The bounds and defaults of what a source may set by itself.
const (
	leastConnections, defaultConnections, mostConnections = 3, 4, 20
	leastBufferedMB, defaultBufferedMB, mostBufferedMB    = 1, 32, 1024
	leastSleep, mostSleep                                 = 5 * time.Second, 24 * time.Hour
)

// Source is a database whose outbox the relay carries beside that of database.url.
type Source struct {
	// Name is the identity of the source. It is written into the database and on every record, and never used again for
	// another database. Required.
	Name string
	// Database says where the outbox is. Required.
	Database Database
	// Allow are the topics that events of the source may go to: names, or globs. Required.
	Allow []string
	// Rules are the rules for single topics. They come after the rules of the section topics. Defaults to none.
	Rules []TopicRule
	// Connections is the most connections to the database. Defaults to 4.
	Connections int
	// BatchSize is how many events are read and sent at once. Defaults to outbox.batch_size.
	BatchSize int
	// BufferedMB is about how many MiB of keys and payloads the relay of the source has in hand at most. Defaults to 32.
	BufferedMB int
	// Sleep is how long no connection is kept between two looks at the outbox. Defaults to 0: the relay stays connected.
	Sleep time.Duration
	// Notifier lets writers wake the relay, which needs one connection more. Without it the first event after a quiet time
	// waits up to a second. Defaults to false.
	Notifier bool

	origin string
}

// Origin is where the source stands, FILE:LINE.
func (s Source) Origin() string { return s.origin }

// String shows the source in one line, without secrets.
func (s Source) String() string {
	text := fmt.Sprintf("%s %s allow=%s", s.Name, s.Database.URL, strings.Join(s.Allow, ","))
	for _, r := range s.Rules {
		text += " [" + r.String() + "]"
	}
	text += fmt.Sprintf(" connections=%d buffered_mb=%d", s.Connections, s.BufferedMB)
	if s.BatchSize > 0 {
		text += fmt.Sprintf(" batch_size=%d", s.BatchSize)
	}
	if s.Sleep > 0 {
		text += fmt.Sprintf(" sleep=%v", s.Sleep)
	}
	if s.Notifier {
		text += " notifier=true"
	}
	return text
}

// GoString is String, so that %#v shows no more.
func (s Source) GoString() string { return s.String() }

// Same reports whether two sources are set alike, wherever they stand. It is asked often.
func (s Source) Same(o Source) bool {
	return s.Name == o.Name && s.Database == o.Database && slices.Equal(s.Allow, o.Allow) && s.Connections == o.Connections &&
		s.BatchSize == o.BatchSize && s.BufferedMB == o.BufferedMB && s.Sleep == o.Sleep && s.Notifier == o.Notifier &&
		slices.EqualFunc(s.Rules, o.Rules, func(a, b TopicRule) bool { return a.String() == b.String() })
}

// Allows reports whether events of the source may go to a topic.
func (s Source) Allows(topic string) bool {
	return slices.ContainsFunc(s.Allow, func(glob string) bool { return fits(glob, topic) })
}

// OwnersOf returns the function that says which sources may write to a topic, in the order of names. Postrider's own topics belong to
// none. It remembers its answers, and is safe for concurrent use.
func (c Config) OwnersOf() func(topic string) []string {
	own, sources := c.OwnTopics(), c.Sources
	var mu sync.Mutex
	known := map[string][]string{}
	return func(topic string) []string {
		if _, is := own[topic]; is || topic == "" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		owners, there := known[topic]
		if there {
			return owners
		}
		for _, s := range sources {
			if s.Allows(topic) {
				owners = append(owners, s.Name)
			}
		}
		if len(known) >= maxKnownTopics { // dead letters may name any
			clear(known)
		}
		known[topic] = owners
		return owners
	}
}

// maxKnownTopics is how many topics the function of OwnersOf remembers.
const maxKnownTopics = 10_000

// Of returns the settings as they are for one source: with its database, its rules and its size of batches.
func (c Config) Of(s Source) Config {
	c.Database = s.Database
	c.Topics = slices.Concat(c.Topics, s.Rules)
	if s.BatchSize > 0 {
		c.Outbox.BatchSize = s.BatchSize
	}
	c.Outbox.Notifier = c.Outbox.Notifier && s.Notifier
	c.origins = maps.Clone(c.origins)
	c.origins["database.url"] = origin{text: s.origin}
	return c
}

// NamesSource reports whether a source has this name.
func (c Config) NamesSource(name string) bool {
	return slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Name == name })
}

// HasSources reports whether other databases than that of database.url are, or may come to be, carried.
func (c Config) HasSources() bool { return len(c.Sources) > 0 || c.SourcesDir != "" }

// ChangedBeside names the settings in which two Configs differ, the sources left out.
func (c Config) ChangedBeside(o Config) []string {
	var names []string
	for _, k := range keys() {
		if !reflect.DeepEqual(k.fieldOf(reflect.ValueOf(c)).Interface(), k.fieldOf(reflect.ValueOf(o)).Interface()) {
			names = append(names, k.String())
		}
	}
	rules := func(c Config) (all string) {
		for _, r := range c.Topics {
			all += r.String() + "\n"
		}
		return all
	}
	if rules(c) != rules(o) {
		names = append(names, topicsSection)
	}
	return names
}

// sources reads the list of sources.
func (f *fileReader) sources(body *yaml.Node) {
	if yamldoc.IsNull(body) {
		return
	}
	if !isList(body) {
		f.problem(body, "the section %s must be a list of sources, each beginning with - name: NAME", sourcesSection)
		return
	}
	for n, item := range body.Content {
		f.source(fmt.Sprintf("source %d of %s", n+1, sourcesSection), item)
	}
}

// sourcesDir reads the folder that the file names.
func (f *fileReader) sourcesDir(value *yaml.Node) {
	folder, ok := scalar(value)
	if !ok || folder == "" {
		f.problem(value, "%s must be the path of a folder", sourcesDirKey)
		return
	}
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(filepath.Dir(f.path), folder)
	}
	f.folder = folder
	files, err := os.ReadDir(folder)
	if err != nil {
		f.problem(value, "%s: the folder %s cannot be read: %v", sourcesDirKey, folder, errors.Unwrap(err))
		return
	}
	for _, file := range files {
		path := filepath.Join(folder, file.Name())
		if strings.HasPrefix(file.Name(), ".") { // also what Kubernetes keeps beside the files of a Secret
			continue
		}
		// A file of a Secret is a link.
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			f.problems = append(f.problems, fmt.Errorf("the file of a source cannot be read: %w", err))
			continue
		}
		one := &fileReader{path: path, seen: map[string]int{}, wrong: map[string]bool{}}
		switch root, wrong := yamldoc.Read(raw); {
		case wrong != nil:
			one.problems = []error{fmt.Errorf("%s:%d: %s", path, wrong.Line, wrong.Text)}
		case root == nil:
			one.problems = []error{fmt.Errorf("%s: the file is empty; it must have the keys of a source, name and url at least", path)}
		default:
			one.source("the source", root)
		}
		f.problems, f.carried = append(f.problems, one.problems...), append(f.carried, one.carried...)
	}
}

var sourceKeys = []string{"name", "url", "url_file", "password_file", "pooler", "topics", "limits", "sleep", "notifier"}

// source reads one source, and keeps it if nothing is wrong with it.
func (f *fileReader) source(label string, body *yaml.Node) {
	wrong := len(f.problems)
	s := Source{origin: fmt.Sprintf("%s:%d", f.path, body.Line), Connections: defaultConnections, BufferedMB: defaultBufferedMB}
	s.Database.Pooler = "auto"
	var urlFile string
	var urlAt *yaml.Node
	for name, value := range f.pairs(body, label) {
		key := name.Value
		if f.twice(name, label+": "+key) || yamldoc.IsNull(value) {
			continue
		}
		switch key {
		case "name":
			if s.Name = f.text(label, key, value); !dlq.ValidSource(s.Name) {
				f.problem(value, "name of %s must be a small letter, and then up to 39 small letters, digits and hyphens", label)
			} else if s.Name == MainSource {
				f.problem(value, "name of %s: %s is the source of database.url", label, MainSource)
			}
		case "url":
			s.Database.URL = DatabaseURL(f.text(label, key, value))
			urlAt = value
		case "url_file":
			urlFile = f.ownPath(label, key, value)
			urlAt = value
		case "password_file":
			s.Database.PasswordFile = f.ownPath(label, key, value)
		case "pooler":
			f.sourceValue(label, key, "database.pooler", value, func(c Config) { s.Database.Pooler = c.Database.Pooler })
		case "topics":
			f.sourceTopics(label, value, &s)
		case "limits":
			f.sourceLimits(label, value, &s)
		case "sleep":
			sleep, err := time.ParseDuration(f.text(label, key, value))
			if s.Sleep = sleep; err != nil || sleep < leastSleep || sleep > mostSleep {
				f.problem(value, "sleep of %s must be a time with its unit, such as 5m, from %v to %v", label, leastSleep, mostSleep)
			}
		case "notifier":
			f.sourceValue(label, key, "outbox.notifier", value, func(c Config) { s.Notifier = c.Outbox.Notifier })
		default:
			f.problem(name, "unknown key %s in %s; the nearest key is %s", shown(key), label, Nearest(key, sourceKeys))
		}
	}
	if !isMapping(body) {
		return // reported
	}
	if s.Name == "" && len(f.problems) == wrong {
		f.problem(body, "%s has no name: add name:", label)
	}
	f.sourceURL(label, body, urlAt, urlFile, &s)
	if len(s.Allow) == 0 && len(f.problems) == wrong {
		f.problem(body, "%s, %s, names no topics: add topics: {allow: [\"orders.*\"]}, because all sources share one login at the brokers", label, s.Name)
	}
	if len(f.problems) == wrong {
		f.carried = append(f.carried, s)
	}
}

// sourceURL settles where the database is.
func (f *fileReader) sourceURL(label string, body, at *yaml.Node, urlFile string, s *Source) {
	switch {
	case at == nil:
		f.problem(body, "%s has no url: add url: or url_file:", label)
		return
	case urlFile != "" && s.Database.URL != "":
		f.problem(body, "%s has both url and url_file; give one", label)
		return
	case urlFile != "":
		text, err := ReadSecretFile("url_file of "+label, urlFile)
		if err != nil {
			f.problem(at, "%v", err)
			return
		}
		s.Database.URL = DatabaseURL(strings.TrimSpace(text))
	}
	if err := checkDatabaseURL(s.Database.URL.Reveal()); err != nil { // which repeats nothing of it
		f.problem(at, "url of %s: %v", label, err)
	}
}

// text reads a plain value.
func (f *fileReader) text(label, key string, value *yaml.Node) string {
	text, ok := scalar(value)
	if !ok {
		f.problem(value, "%s of %s must be a plain value, not %s", key, label, kindOf(value))
	}
	return strings.TrimSpace(text)
}

// ownPath reads the path of a file. A relative one is inside the folder of the file that names it, so that a source's file
// cannot lead to files that are not its own by accident.
func (f *fileReader) ownPath(label, key string, value *yaml.Node) string {
	path := f.text(label, key, value)
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	if !filepath.IsLocal(path) {
		f.problem(value, "%s of %s leads out of the folder of this file; give an absolute path, or a file inside the folder", key, label)
		return path
	}
	return filepath.Join(filepath.Dir(f.path), path)
}

// sourceValue reads a value as another setting is read.
func (f *fileReader) sourceValue(label, key, as string, value *yaml.Node, take func(Config)) {
	k, _ := named(as)
	var scratch Config
	if err := k.set(&scratch, f.text(label, key, value)); err != nil {
		f.problem(value, "%s of %s: %v", key, label, err)
		return
	}
	take(scratch)
}

// sourceTopics reads which topics a source may write, and its rules for single topics.
func (f *fileReader) sourceTopics(label string, body *yaml.Node, s *Source) {
	for name, value := range f.pairs(body, "topics of "+label) {
		switch key := name.Value; key {
		case "allow":
			if !isList(value) {
				f.problem(value, "topics.allow of %s must be a list of topic names, or globs with * and ?", label)
				continue
			}
			for _, item := range value.Content {
				glob, ok := scalar(item)
				if !ok {
					f.problem(item, "topics.allow of %s must be a list of plain values; quote one that begins with *", label)
				} else if err := checkGlob(glob); err != nil {
					f.problem(item, "topics.allow of %s%s: %v", label, found{text: glob}.quoted(), err)
				} else {
					s.Allow = append(s.Allow, glob)
				}
			}
		case "rules":
			if !isList(value) {
				f.problem(value, "topics.rules of %s must be a list of rules, each beginning with - match: TOPIC", label)
				continue
			}
			own := &fileReader{path: f.path, seen: map[string]int{}, wrong: f.wrong}
			own.topics(value)
			for _, r := range own.rules {
				if r.sets("dlq_topic") {
					own.problem(value, "topics.rules of %s: dlq_topic is for all sources; give it in the section %s", label, topicsSection)
				}
			}
			s.Rules, f.problems = own.rules, append(f.problems, own.problems...)
		default:
			f.problem(name, "unknown key %s in topics of %s; the keys are allow and rules", shown(key), label)
		}
	}
}

// sourceLimits reads what a source may take.
func (f *fileReader) sourceLimits(label string, body *yaml.Node, s *Source) {
	for name, value := range f.pairs(body, "limits of "+label) {
		number := func(least, most int) int {
			n, err := strconv.Atoi(f.text(label, name.Value, value))
			if err != nil || n < least || n > most {
				f.problem(value, "%s of %s must be a whole number from %d to %d", name.Value, label, least, most)
			}
			return n
		}
		switch key := name.Value; key {
		case "connections":
			s.Connections = number(leastConnections, mostConnections)
		case "batch_size":
			k, _ := named("outbox.batch_size")
			s.BatchSize = number(int(k.bound("min")), int(k.bound("max")))
		case "buffered_mb":
			s.BufferedMB = number(leastBufferedMB, mostBufferedMB)
		default:
			f.problem(name, "unknown key %s in limits of %s; the keys are connections, batch_size and buffered_mb", shown(key), label)
		}
	}
}

// checkSources compares the sources with each other, and each with the other settings.
func (c *Config) checkSources(wrong map[string]bool) []error {
	var problems []error
	if len(c.Sources) > mostSources {
		problems = append(problems, fmt.Errorf("there are %d sources; one installation has at most %d", len(c.Sources), mostSources))
	}
	at, led := map[string]string{}, map[string]string{}
	for _, s := range c.Sources {
		// The one that comes first would have its name written into the database, and a name is never changed. That of database.url is
		// not compared: a flag or the environment may give a person's address beside the settings of serve.
		place := s.Database.URL.place()
		if other := led[place]; other != "" && place != "" && other != s.Name {
			problems = append(problems, fmt.Errorf("%s: the source %s leads to the database of the source %s; a database is one source", s.origin, s.Name, other))
		}
		led[place] = s.Name
		if first := at[s.Name]; first != "" {
			problems = append(problems, fmt.Errorf("%s: the source %s is there already, at %s; each database has a name of its own", s.origin, s.Name, first))
		}
		at[s.Name] = s.origin
		own := c.Of(s)
		if !wrong["outbox.retry_base_ms"] && !wrong["outbox.retry_max_ms"] && len(s.Rules) > 0 {
			problems = append(problems, own.checkRetry()...)
		}
		if !wrong["outbox.publish_timeout_ms"] {
			problems = append(problems, own.checkSessions()...)
		}
	}
	slices.SortStableFunc(c.Sources, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return problems
}
