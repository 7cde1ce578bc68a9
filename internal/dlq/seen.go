package dlq

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// AllSources, alone in a list of sources, stands for every source, also for one that is added later.
const AllSources = "*"

type sourcesKey struct{}

// WithSources returns a context in which investigations, groups, operations, commands and their counts are those of these
// sources alone. Nothing is seen with an empty list. The limit cannot be widened again: of two, what both have is seen.
func WithSources(ctx context.Context, sources []string) context.Context {
	seen := slices.Clone(sources)
	if limit := SourcesOf(ctx); limit != nil {
		seen = slices.DeleteFunc(seen, func(s string) bool { return !slices.Contains(limit, s) })
	}
	if seen == nil {
		seen = []string{}
	}
	return context.WithValue(ctx, sourcesKey{}, seen)
}

// SourcesOf returns the sources that ctx limits to, and nil for no limit.
func SourcesOf(ctx context.Context) []string {
	sources, _ := ctx.Value(sourcesKey{}).([]string)
	return sources
}

// OnlySource returns the sources that ctx limits to which are the one given, as a query takes them; an empty one is any.
func OnlySource(ctx context.Context, source string) []string {
	limit := SourcesOf(ctx)
	switch {
	case source == "":
		return limit
	case limit == nil || slices.Contains(limit, source):
		return []string{source}
	}
	return []string{}
}

// Thing is what an id may name.
type Thing string

const (
	// AnEntry is an investigation.
	AnEntry Thing = "investigation"
	// AGroup is a group of investigations.
	AGroup Thing = "group"
	// AnOperation is an operation. It is seen with all sources of its scope.
	AnOperation Thing = "operation"
)

// Seer knows what is seen.
type Seer interface {
	// Seen returns the things among these that exist and are of the sources that ctx limits to, in their order. Without a
	// limit it asks nothing and returns all.
	Seen(ctx context.Context, what Thing, ids []uuid.UUID) ([]uuid.UUID, error)
}

// CheckSeen returns the error about the first of these things that is not seen. It is the same for a thing of another source
// and for one that does not exist, and wraps ErrNotFound.
func CheckSeen(ctx context.Context, from Seer, what Thing, ids ...uuid.UUID) error {
	seen, err := from.Seen(ctx, what, ids)
	if err != nil || len(seen) == len(ids) {
		return err
	}
	for _, id := range ids {
		if !slices.Contains(seen, id) {
			return fmt.Errorf("%s %s: %w", what, id, ErrNotFound)
		}
	}
	return nil
}
