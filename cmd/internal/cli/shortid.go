package cli

import (
	"context"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	taskspostgres "github.com/postrider/postrider/internal/tasks/postgres"
)

// idKind is a kind of thing that arguments name by id.
type idKind struct {
	what, list string // for errors
	find       func(ctx context.Context, pool *pgxpool.Pool, low, high uuid.UUID, limit int) ([]uuid.UUID, error)
	all        bool // every argument is an id; otherwise the first is
}

// byLetters finds ids in the store of dead letters.
func byLetters(find func(s *dlqpostgres.Store, ctx context.Context, low, high uuid.UUID, limit int) ([]uuid.UUID, error)) func(context.Context, *pgxpool.Pool, uuid.UUID, uuid.UUID, int) ([]uuid.UUID, error) {
	return func(ctx context.Context, pool *pgxpool.Pool, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
		s, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: pool})
		if err != nil {
			return nil, err
		}
		return find(s, ctx, low, high, limit)
	}
}

var (
	entryKind     = idKind{"investigation", listsEntries, byLetters((*dlqpostgres.Store).EntryIDs), true}
	groupKind     = idKind{"group", listsGroups, byLetters((*dlqpostgres.Store).GroupIDs), false}
	operationKind = idKind{"operation", listsOperations, byLetters((*dlqpostgres.Store).OperationIDs), false}
	taskKind      = idKind{"task", "postrider task list", func(ctx context.Context, pool *pgxpool.Pool, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
		return taskspostgres.On(pool).TaskIDs(ctx, low, high, limit)
	}, false}
)

// kindOf says what the ids among the arguments of a command name; nil for a command that takes none.
func kindOf(path string) *idKind {
	verb := path[strings.LastIndex(path, " ")+1:]
	switch {
	case path == "dlq group merge":
		both := groupKind
		both.all = true
		return &both
	case strings.HasPrefix(path, "dlq group"):
		return &groupKind
	case strings.HasPrefix(path, "dlq "), path == "op plan":
		return &entryKind
	case strings.HasPrefix(path, "op "):
		return &operationKind
	case path == "task heartbeat", path == "task create", path == "task list":
		return nil
	case strings.HasPrefix(path, "task step "), strings.HasPrefix(path, "task ") && verb != "detect-stale":
		return &taskKind
	}
	return nil
}

// beginning is how an id can begin, with at least shortID characters.
var beginning = regexp.MustCompile(`^[0-9a-f]{8}(-|-[0-9a-f]{1,4}|-[0-9a-f]{4}-[0-9a-f]{0,4}|(-[0-9a-f]{4}){2}-[0-9a-f]{0,4}|(-[0-9a-f]{4}){3}-[0-9a-f]{0,11})?$`)

// completeIDs puts the whole id into args where an argument is the beginning of exactly one. Tables on a terminal show
// beginnings only.
func (c *commands) completeIDs(cmd *cobra.Command, args []string) error {
	kind := kindOf(strings.TrimPrefix(cmd.CommandPath(), "postrider "))
	if kind == nil {
		return nil
	}
	for i, arg := range args {
		if i > 0 && !kind.all {
			return nil
		}
		if arg = strings.ToLower(arg); !beginning.MatchString(arg) {
			continue
		}
		err := c.withPool(cmd.Context(), func(pool *pgxpool.Pool) error {
			found, err := kind.find(cmd.Context(), pool, uuid.MustParse(completed(arg, '0')), uuid.MustParse(completed(arg, 'f')), 2)
			switch {
			case err != nil:
				return err
			case len(found) == 0:
				return usagef("no %s has an id that begins with %s; %s shows them", kind.what, arg, kind.list)
			case len(found) > 1:
				return usagef("%s is the beginning of several ids: %s and %s; give more of it", arg, found[0], found[1])
			}
			args[i] = found[0].String()
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// completed is the beginning of an id with the rest of it.
func completed(beginning string, rest rune) string {
	const shape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	return beginning + strings.ReplaceAll(shape[len(beginning):], "x", string(rest))
}
