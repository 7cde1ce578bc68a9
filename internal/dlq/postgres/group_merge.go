package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/dlq"
)

// MergeGroups merges a group into another, in one transaction with the audit log. An unknown group is an error that wraps
// dlq.ErrNotFound. A group that was itself merged away, to merge into, is an error that wraps dlq.ErrRequest.
func (d *Investigations) MergeGroups(ctx context.Context, m dlq.GroupMerge) (done dlq.MergedGroup, err error) {
	if err := m.Check(); err != nil {
		return done, err
	}
	err = d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, id := range []uuid.UUID{m.Group, m.Into} {
			if _, err := oneGroup(ctx, tx, id); err != nil {
				return err
			}
		}
		if err := tx.QueryRow(ctx, groupMerge, m.Group, m.Into, dlq.MaxGroupMerge, m.Actor).Scan(&done.Moved); err != nil {
			return notAsGroupsAre(fmt.Sprintf("merge group %s into %s", m.Group, m.Into), err)
		}
		rest, err := oneGroup(ctx, tx, m.Group)
		if err != nil {
			return err
		}
		done.Left = rest.Entries
		return d.audit.Audit(ctx, tx, m.Actor, "group.merge", "group", m.Group.String(), []string{rest.Source},
			map[string]any{"into": m.Into, "moved": done.Moved, "left": done.Left})
	})
	return done, err
}

// SplitGroup takes investigations out of a group and returns the groups that they are in then, in one transaction with the
// audit log. An unknown group, or an investigation that is not in it, is an error that wraps dlq.ErrNotFound. If
// investigations cannot be told from the others, the error wraps dlq.ErrAlike.
func (d *Investigations) SplitGroup(ctx context.Context, s dlq.GroupSplit) (groups []dlq.Group, err error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	err = d.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		groups = nil
		// All of them before the first group: a part locks groups.
		if _, err := lockEntries(ctx, tx, redriveLock, distinctIDs(s.Entries)); err != nil {
			return err
		}
		var sources []dlq.Group
		var entries []dlq.Entry
		b := &pgx.Batch{}
		queueRows(b, &sources, scanGroup, groupSources, s.Group)
		queueRows(b, &entries, scanEntry, entryMany, distinctIDs(s.Entries))
		if err := send(ctx, tx, b); err != nil {
			return err
		}
		if err := inGroup(s, entries); err != nil {
			return err
		}
		parts, err := dlq.SplitInto(s.Group, sources, entries)
		if err != nil {
			return err
		}
		for _, p := range parts {
			raw, _ := json.Marshal(p.Parts) // strings always can be
			var id uuid.UUID
			err := tx.QueryRow(ctx, groupSplit, s.Group, p.Entries, p.Fingerprints, dlq.FingerprintVersion, string(raw), p.Parts.Title(),
				p.Word, s.Actor).Scan(&id)
			if err != nil {
				return notAsGroupsAre(fmt.Sprintf("split group %s", s.Group), err)
			}
			g, err := oneGroup(ctx, tx, id)
			if err != nil {
				return err
			}
			groups = append(groups, g)
			if err := d.audit.Audit(ctx, tx, s.Actor, "group.split", "group", s.Group.String(), []string{g.Source},
				map[string]any{"into": id, "entries": p.Entries}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return groups, nil
}

// inGroup reports the first investigation of a split that does not exist or is in another group.
func inGroup(s dlq.GroupSplit, found []dlq.Entry) error {
	in := map[uuid.UUID]uuid.UUID{}
	for _, e := range found {
		in[e.UUID] = e.GroupUUID
	}
	for _, id := range s.Entries {
		if group, there := in[id]; !there || group != s.Group {
			return fmt.Errorf("investigation %s in group %s: %w", id, s.Group, dlq.ErrNotFound)
		}
	}
	return nil
}

// notAsGroupsAre turns the refusal of a function into one of the request.
func notAsGroupsAre(doing string, err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && (pg.Code == "55000" || pg.Code == "22023") {
		return fmt.Errorf("%w: %s: %s", dlq.ErrRequest, doing, cmp.Or(pg.Detail, pg.Message))
	}
	return translate(doing, err)
}
