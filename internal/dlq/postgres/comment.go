package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
)

func scanComment(row pgx.CollectableRow) (c dlq.Comment, err error) {
	var deleted pgtype.Timestamptz
	err = row.Scan(&c.ID, &c.Author, &c.AuthorID, &c.Text, &c.CreatedAt, &deleted)
	c.DeletedAt = deleted.Time
	return c, err
}

// commentsOf returns the statement that lists the comments of a thread, and its first argument.
func commentsOf(t dlq.Thread) (list string, of uuid.UUID) {
	if t.Group != uuid.Nil {
		return commentListGroup, t.Group
	}
	return commentListEntry, t.Entry
}

// Comments implements dlq.Investigations.
func (d *Investigations) Comments(ctx context.Context, t dlq.Thread, after int64, limit int) (found []dlq.Comment, err error) {
	err = d.readByKey(ctx, fmt.Sprintf("comments of %s", t), func(ctx context.Context, tx pgx.Tx) error {
		var there bool
		b := &pgx.Batch{}
		queueValue(b, &there, commentSubject, nullUUID(t.Entry), nullUUID(t.Group))
		list, of := commentsOf(t)
		queueRows(b, &found, scanComment, list, of, after, limit)
		if err := send(ctx, tx, b); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%s: %w", t, dlq.ErrNotFound)
		}
		return nil
	})
	return found, err
}

// AddComment implements dlq.Investigations.
func (d *Investigations) AddComment(ctx context.Context, n dlq.NewComment) (c dlq.Comment, err error) {
	if err := n.Check(); err != nil {
		return c, err
	}
	kind, id := n.Thread.Subject()
	err = d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		c = dlq.Comment{Author: n.Actor, AuthorID: cmp.Or(n.ActorID, n.Actor), Text: n.Text}
		if err := tx.QueryRow(ctx, commentInsert, nullUUID(n.Thread.Entry), nullUUID(n.Thread.Group), n.Actor, c.AuthorID, n.Text).Scan(&c.ID, &c.CreatedAt); err != nil {
			return commentRefused(n.Thread.String(), "write a comment", err)
		}
		sources, err := sourcesOfThread(ctx, tx, n.Thread)
		if err != nil {
			return err
		}
		return d.audit.Audit(ctx, tx, n.Actor, commentAction(kind), kind, id.String(), sources, map[string]any{"comment": c.ID})
	})
	return c, err
}

// DeleteComment implements dlq.Investigations.
func (d *Investigations) DeleteComment(ctx context.Context, t dlq.Thread, comment int64, actor, actorID string) (c dlq.Comment, err error) {
	kind, id := t.Subject()
	err = d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var deleted bool
		what := fmt.Sprintf("comment %d of %s", comment, t)
		if err := tx.QueryRow(ctx, commentDelete, nullUUID(t.Entry), nullUUID(t.Group), comment, actor, cmp.Or(actorID, actor)).Scan(&deleted); err != nil {
			return commentRefused(what, "delete a comment", err)
		}
		list, of := commentsOf(t)
		rows, err := tx.Query(ctx, list, of, comment-1, 1)
		if err != nil {
			return translate("read a comment", err)
		}
		if c, err = pgx.CollectExactlyOneRow(rows, scanComment); err != nil {
			return translate("read a comment", err)
		}
		if !deleted {
			return nil
		}
		sources, err := sourcesOfThread(ctx, tx, t)
		if err != nil {
			return err
		}
		return d.audit.Audit(ctx, tx, actor, commentAction(kind)+"_delete", kind, id.String(), sources, map[string]any{"comment": comment})
	})
	return c, err
}

// commentAction is what the audit log calls writing a comment.
func commentAction(kind string) string {
	if kind == "group" {
		return "group.comment"
	}
	return "dlq.comment"
}

// commentRefused is the error of a function of comments, as the functions raise it.
func commentRefused(what, doing string, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		switch refused.Code {
		case "P0002":
			return fmt.Errorf("%s: %w", what, dlq.ErrNotFound)
		case "55000":
			return fmt.Errorf("%s: %w: %s", what, dlq.ErrNotAuthor, refused.Detail)
		}
	}
	return translate(doing, err)
}
