package cli

import (
	"context"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	dlqpostgres "github.com/postrider/postrider/internal/dlq/postgres"
	taskspostgres "github.com/postrider/postrider/internal/tasks/postgres"
)

// idKind is a kind of thing that arguments and flags name by id.
type idKind struct {
	what, list string // for errors
	find       findIDs
}

// findIDs returns at most limit ids from low to high.
type findIDs func(ctx context.Context, pool *pgxpool.Pool, low, high uuid.UUID, limit int) ([]uuid.UUID, error)

// byLetters finds ids in the store of dead letters.
func byLetters(find func(s *dlqpostgres.Store, ctx context.Context, low, high uuid.UUID, limit int) ([]uuid.UUID, error)) findIDs {
	return func(ctx context.Context, pool *pgxpool.Pool, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
		s, err := dlqpostgres.NewStore(dlqpostgres.Config{Pool: pool})
		if err != nil {
			return nil, err
		}
		return find(s, ctx, low, high, limit)
	}
}

var (
	entryKind     = idKind{what: "investigation", list: listsEntries, find: byLetters((*dlqpostgres.Store).EntryIDs)}
	groupKind     = idKind{what: "group", list: listsGroups, find: byLetters((*dlqpostgres.Store).GroupIDs)}
	operationKind = idKind{what: "operation", list: listsOperations, find: byLetters((*dlqpostgres.Store).OperationIDs)}
	taskKind      = idKind{what: "task", list: "postrider task list", find: func(ctx context.Context, pool *pgxpool.Pool, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
		return taskspostgres.On(pool).TaskIDs(ctx, low, high, limit)
	}}
	archivedKind = idKind{what: "archived task", list: "postrider archive list", find: func(ctx context.Context, pool *pgxpool.Pool, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
		return taskspostgres.NewArchive(pool).ArchivedTaskIDs(ctx, low, high, limit)
	}}
	// anyTaskKind are the tasks that events can be of.
	anyTaskKind = idKind{what: "task", list: "postrider task list, or postrider archive list,", find: func(ctx context.Context, pool *pgxpool.Pool, low, high uuid.UUID, limit int) ([]uuid.UUID, error) {
		found, err := taskKind.find(ctx, pool, low, high, limit)
		if err != nil {
			return nil, err
		}
		archived, err := archivedKind.find(ctx, pool, low, high, limit)
		return append(found, archived...), err
	}}
)

// kindOf says what an argument of a command names by id; nil for one that names nothing so.
func kindOf(path string, argument int) *idKind {
	switch {
	case path == "dlq group merge":
		return &groupKind
	case strings.HasPrefix(path, "dlq group") && argument == 0:
		return &groupKind
	case strings.HasPrefix(path, "dlq group") && path != "dlq group split":
		return nil
	case path == "dlq comment" && argument > 0:
		return nil
	case strings.HasPrefix(path, "dlq "), path == "op plan":
		return &entryKind
	case path == "task retry":
		return &taskKind
	case argument > 0:
		return nil
	case strings.HasPrefix(path, "op "):
		return &operationKind
	case path == "archive show":
		return &archivedKind
	case path == "task heartbeat", path == "task create", path == "task list", path == "task detect-stale":
		return nil
	case strings.HasPrefix(path, "task "):
		return &taskKind
	}
	return nil
}

// kindOfFlag says what a flag of a command names by id; nil for one that names nothing so.
func kindOfFlag(path, flag string) *idKind {
	switch path + " --" + flag {
	case "dlq list --group", "op plan --group", "task retry --group":
		return &groupKind
	case "outbox list --task":
		return &anyTaskKind
	}
	return nil
}

// beginning is how an id can begin, with at least shortID characters.
var beginning = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{0,4}|-[0-9a-f]{4}-[0-9a-f]{0,4}|(-[0-9a-f]{4}){2}-[0-9a-f]{0,4}|(-[0-9a-f]{4}){3}-[0-9a-f]{0,11})?$`)

// completeIDs puts the whole id into args and flags where one is the beginning of exactly one id. Tables on a terminal show
// beginnings only.
func (c *commands) completeIDs(cmd *cobra.Command, args []string) (err error) {
	path := strings.TrimPrefix(cmd.CommandPath(), "postrider ")
	for i, arg := range args {
		if args[i], err = c.wholeID(cmd.Context(), kindOf(path, i), arg); err != nil {
			return err
		}
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		kind := kindOfFlag(path, f.Name)
		if kind == nil || err != nil {
			return
		}
		var id string
		if id, err = c.wholeID(cmd.Context(), kind, f.Value.String()); err == nil {
			err = f.Value.Set(id)
		}
	})
	return err
}

// wholeID is the only id of a kind that begins with a text; a text that is no beginning stays.
func (c *commands) wholeID(ctx context.Context, kind *idKind, text string) (string, error) {
	short := strings.ToLower(text)
	if kind == nil || !beginning.MatchString(short) {
		return text, nil
	}
	err := c.withPool(ctx, func(pool *pgxpool.Pool) error {
		found, err := kind.find(ctx, pool, uuid.MustParse(padID(short, '0')), uuid.MustParse(padID(short, 'f')), 2)
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return usagef("no %s has an id that begins with %s; %s shows them", kind.what, short, kind.list)
		case len(found) > 1:
			return usagef("%s is the beginning of several ids: %s and %s; give more of it", short, found[0], found[1])
		}
		text = found[0].String()
		return nil
	})
	return text, err
}

// padID is the beginning of an id, filled up to a whole one with a digit.
func padID(beginning string, digit rune) string {
	const shape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	return beginning + strings.ReplaceAll(shape[len(beginning):], "x", string(digit))
}
