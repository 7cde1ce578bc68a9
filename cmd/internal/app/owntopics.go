package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed queries/own_topics.sql
var ownTopicsQuery string

// writeOwnTopics tells the functions of writers which topics are not theirs. The relay gives up what was written to one of
// them by other means.
func (a *App) writeOwnTopics(ctx context.Context, pool *pgxpool.Pool, own map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	topics := slices.Sorted(maps.Keys(own))
	uses := make([]string, len(topics))
	for i, topic := range topics {
		uses[i] = own[topic]
	}
	_, err := pool.Exec(ctx, ownTopicsQuery, topics, uses)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == "42501": // insufficient_privilege
		// Rights that are missing until roles.sql was run again must not keep events from going.
		a.log.Error("the functions of writers go on with the topics that they know as Postrider's own", "err", err)
		return nil
	case err != nil:
		return fmt.Errorf("write down the topics that are Postrider's own: %w", err)
	}
	return nil
}
