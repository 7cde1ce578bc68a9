package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
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
