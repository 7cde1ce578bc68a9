package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/postrider/postrider/internal/dlq"
)

// Sources are the sources whose things a key sees and acts on, by name, sorted: {*} is all of them, also the ones that are added
// later. The zero value is none.
type Sources []string

// AllSources are the sources of a key that sees everything.
func AllSources() Sources { return Sources{dlq.AllSources} }

// All reports whether these are all sources.
func (s Sources) All() bool { return slices.Contains(s, dlq.AllSources) }

// Has reports whether a source is one of these.
func (s Sources) Has(name string) bool { return s.All() || slices.Contains(s, name) }

// Limit are the names that queries are limited to; nil for all sources.
func (s Sources) Limit() []string {
	if s.All() {
		return nil
	}
	return append([]string{}, s...)
}

// within returns a context that is limited to these sources (dlq.WithSources).
func (s Sources) within(ctx context.Context) context.Context {
	if s.All() {
		return ctx
	}
	return dlq.WithSources(ctx, s)
}

// String says the sources in words.
func (s Sources) String() string {
	switch {
	case s.All():
		return "all"
	case len(s) == 0:
		return "none"
	}
	return strings.Join(s, ", ")
}

// ParseSources reads the names of sources. * alone is all. The result is sorted and has none twice; it is not nil.
func ParseSources(names []string) (Sources, error) {
	out := Sources{}
	for _, name := range names {
		switch {
		case name == dlq.AllSources && len(names) > 1:
			return nil, fmt.Errorf("* is all sources, and %d are given; give * alone, or names alone", len(names))
		case name != dlq.AllSources && !dlq.ValidSource(name):
			return nil, fmt.Errorf("source %q is no name; it must be * (all), or %s", name, dlq.WantSource)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
