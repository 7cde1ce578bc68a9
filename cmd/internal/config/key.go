package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/nearest"
	"github.com/postrider/postrider/message"
)

// Key is one setting: its names, its default and what it accepts.
type Key struct {
	// Section and Name as in the file: outbox and batch_size.
	Section, Name string
	// Default as text; empty for a required key.
	Default string
	// Help says in a few words what it is, for --help.
	Help string
	// Required keys have no default; see Config.Require.
	Required bool

	tag   reflect.StructTag
	kind  reflect.Type
	index [2]int
}

// String returns the key as section.name.
func (k Key) String() string { return k.Section + "." + k.Name }

// Env returns the environment variable, for example OUTBOX_BATCH_SIZE.
func (k Key) Env() string { return strings.ToUpper(k.Section + "_" + k.plain()) }

// plain is the name without the section, which some keys of the file have in front as well: archive.archive_batch_size
// is ARCHIVE_BATCH_SIZE and --archive-batch-size.
func (k Key) plain() string { return strings.TrimPrefix(k.Name, k.Section+"_") }

// Flag returns the flag without its dashes, for example outbox-batch-size. The address of the HTTP server is --http for
// every command that has one.
func (k Key) Flag() string {
	if k.Section == "http" && k.Name == "address" {
		return "http"
	}
	return strings.ReplaceAll(k.Section+"-"+k.plain(), "_", "-")
}

// Secret reports whether values of this key must not be shown.
func (k Key) Secret() bool {
	return k.kind == reflect.TypeFor[DatabaseURL]() || k.kind == reflect.TypeFor[Secret]()
}

// Kind says what values are, in a word for help texts: text, list, number or bool.
func (k Key) Kind() string {
	switch k.kind.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Slice:
		return "list"
	case reflect.Int, reflect.Int64:
		return "number"
	}
	return "text"
}

// aliasPrefix is a second way to write the names of the outbox section in the environment.
const aliasPrefix = "A2A_"

// envNames returns the variables that set this key, the plain one first.
func (k Key) envNames() []string {
	switch {
	case k.Section == "outbox":
		return []string{k.Env(), aliasPrefix + k.Env()}
	case k.plain() != k.Name: // section and key as they stand in the file
		return []string{k.Env(), strings.ToUpper(k.Section + "_" + k.Name)}
	}
	return []string{k.Env()}
}

// Keys returns every setting, in the order of the Config struct.
func Keys() []Key { return append([]Key(nil), keys()...) }

var keys = sync.OnceValue(func() []Key {
	var all []Key
	config := reflect.TypeFor[Config]()
	for i := range config.NumField() {
		section := config.Field(i)
		if section.Tag.Get("key") == "" {
			continue // not a section of keys
		}
		for j := range section.Type.NumField() {
			f := section.Type.Field(j)
			all = append(all, Key{
				Section: section.Tag.Get("key"), Name: f.Tag.Get("key"),
				Default: f.Tag.Get("default"), Help: f.Tag.Get("help"), Required: f.Tag.Get("required") == "true",
				tag: f.Tag, kind: f.Type, index: [2]int{i, j},
			})
		}
	}
	return all
})

// named returns the key that is section.name.
func named(name string) (Key, bool) {
	i := slices.IndexFunc(keys(), func(k Key) bool { return k.String() == name })
	if i < 0 {
		return Key{}, false
	}
	return keys()[i], true
}

// value is what a Config has for this key, in the unit of the key's name: a number, a bool, a text or
// a list of texts, masked where it is secret.
func (k Key) value(c Config) any {
	switch v := k.fieldOf(reflect.ValueOf(c)).Interface().(type) {
	case []string, int, bool, string:
		return v
	case time.Duration:
		return int64(v / k.unit())
	default:
		return fmt.Sprint(v)
	}
}

// text renders the value that a Config has for this key as the file would have it, masked where
// it is secret.
func (k Key) text(c Config) string {
	switch v := k.fieldOf(reflect.ValueOf(c)).Interface().(type) {
	case []string:
		return strings.Join(v, ",")
	case time.Duration:
		return strconv.FormatInt(int64(v/k.unit()), 10)
	default:
		return fmt.Sprint(v)
	}
}

// unit is what a number means for a key that holds a duration; the key's name says it.
func (k Key) unit() time.Duration {
	switch {
	case strings.HasSuffix(k.Name, "_ms"):
		return time.Millisecond
	case strings.HasSuffix(k.Name, "_seconds"):
		return time.Second
	case strings.HasSuffix(k.Name, "_minutes"):
		return time.Minute
	case strings.HasSuffix(k.Name, "_hours"):
		return time.Hour
	}
	panic("config: the name of " + k.String() + " does not end in a unit")
}

// set parses text and puts it into the Config. The error describes the mistake and the allowed values, and repeats
// no value as a whole: the caller decides whether it may be shown. Of a list it names the wrong items.
func (k Key) set(c *Config, text string) error {
	field := k.fieldOf(reflect.ValueOf(c).Elem())
	text = strings.TrimSpace(text)
	switch field.Interface().(type) {
	case int:
		n, err := k.number(text)
		if err != nil {
			return err
		}
		field.SetInt(n)
	case time.Duration:
		n, err := k.number(text)
		if err != nil {
			return err
		}
		field.SetInt(n * int64(k.unit()))
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("it must be true, false, 1 or 0")
		}
		field.SetBool(b)
	case []string:
		var list []string
		if text == "" && !k.Required { // none
			field.Set(reflect.ValueOf(list))
			return nil
		}
		for item := range strings.SplitSeq(text, ",") {
			list = append(list, strings.TrimSpace(item))
		}
		if err := k.checkItems(list); err != nil {
			return err
		}
		field.Set(reflect.ValueOf(list))
	default: // string, DatabaseURL and Secret
		if allowed := strings.Fields(k.tag.Get("oneof")); len(allowed) > 0 {
			text = strings.ToLower(text)
			if !slices.Contains(allowed, text) {
				return fmt.Errorf("it must be one of %s", strings.Join(allowed, ", "))
			}
		}
		if err := k.check(text); err != nil {
			return err
		}
		field.SetString(text)
	}
	return nil
}

// checkItems looks at each item of a list, and names all that are wrong where there are several items. An item that may
// have a password in it is named by its place.
func (k Key) checkItems(list []string) error {
	var faults []string
	items := map[string][]string{} // by what is wrong with them
	for i, item := range list {
		err := k.check(item)
		if err == nil {
			continue
		}
		if items[err.Error()] == nil {
			faults = append(faults, err.Error())
		}
		name := shownText(item)
		if name == "" {
			name = fmt.Sprintf("item %d", i+1)
		}
		items[err.Error()] = append(items[err.Error()], name)
	}
	for i, fault := range faults {
		if len(list) > 1 {
			faults[i] = strings.Join(items[fault], ", ") + ": " + fault
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

// channelWord is what fits into the type of a CloudEvent between two dots.
var channelWord = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

func (k Key) number(text string) (int64, error) {
	low, high := k.bound("min"), k.bound("max")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("it must be a whole number from %d to %d", low, high)
	}
	return n, nil
}

func (k Key) bound(name string) int64 {
	n, err := strconv.ParseInt(k.tag.Get(name), 10, 64)
	if err != nil {
		panic("config: the tag " + name + " of " + k.String() + " is not a number")
	}
	return n
}

// check applies the rule that the key names for its text values.
func (k Key) check(text string) error {
	switch rule := k.tag.Get("check"); rule {
	case "":
		if text == "" {
			return errors.New("it must not be empty")
		}
		return nil
	case "optional": // any text, or none
		return nil
	case "label": // or none
		if access.Misleads(text) {
			return errors.New("it must not have control characters, marks of direction or invisible characters: the pages would show something else")
		}
		return nil
	case "database":
		return checkDatabaseURL(text)
	case "broker":
		return checkBroker(text)
	case "listen":
		if _, _, err := splitAddress(text, 0); err != nil {
			return fmt.Errorf("it must be host:port: %w", err)
		}
		return nil
	case "word":
		if !channelWord.MatchString(text) {
			return errors.New("it must be 1 to 100 letters, digits, underscores or hyphens")
		}
		return nil
	case "topic":
		if message.ValidTopic(text) != nil {
			return errors.New(`it must be a Kafka topic name: 1 to 249 letters, digits, dots, underscores and hyphens, and not "." or ".."`)
		}
		return nil
	case "desk":
		if _, err := uuid.Parse(text); err != nil {
			return errors.New("it must be the identity of a desk, a UUID")
		}
		return nil
	case "topic_pattern":
		_, err := dlq.NewTopicPatterns([]string{text})
		return err
	case "endpoint":
		return checkEndpoint(text)
	case "headers":
		return checkHeaders(text)
	case "origin":
		return checkOrigin(text)
	case "url": // or none
		if text != "" && checkOrigin(text) != nil {
			return errors.New("it must be scheme, host and port as browsers show them: https://postrider.example.com, in small letters, without a path or /")
		}
		return nil
	case "network":
		return checkNetwork(text)
	case "group_scopes":
		return checkGroupScopes(text)
	case "issuer":
		return checkIssuer(text)
	case "header_name":
		return checkHeaderName(text)
	case "redact_path":
		return checkRedaction(dlq.RedactionRules{Paths: []string{text}})
	case "redact_header":
		return checkRedaction(dlq.RedactionRules{Headers: []string{text}})
	default:
		panic("config: " + k.String() + " names the unknown rule " + rule)
	}
}

// checkRedaction reads a rule in the same way as the code that applies it.
func checkRedaction(rules dlq.RedactionRules) error {
	if _, err := dlq.NewRedactor(rules); err != nil {
		return fmt.Errorf("it must be a rule such as $.card.number or $..password, of headers a name or a pattern with *: %w", err)
	}
	return nil
}

// Nearest returns the candidate that takes the fewest edits to reach from name.
func Nearest(name string, candidates []string) string {
	best, _ := nearest.Of(name, candidates)
	return best
}
