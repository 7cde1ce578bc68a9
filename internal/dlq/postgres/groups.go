package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/dlq"
)

// assign sets the openings' groups, and makes the missing ones. It comes before any investigation is locked: a
// collector that waits here for another collector's new group has nothing that the other could wait for.
func assign(ctx context.Context, tx pgx.Tx, cs []*opening) error {
	known := map[string]group{}
	for _, c := range cs {
		c.fingerprint = dlq.FingerprintOf(c.first)
		known[c.fingerprint.ID], known[c.fingerprint.Exact] = group{}, group{}
	}
	if err := findGroups(ctx, tx, known); err != nil {
		return err
	}
	var missing []*opening
	for _, c := range cs {
		if known[c.fingerprint.Exact].id == uuid.Nil && known[c.fingerprint.ID].id == uuid.Nil {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		if err := insertGroups(ctx, tx, missing); err != nil {
			return err
		}
		if err := findGroups(ctx, tx, known); err != nil {
			return err
		}
	}
	for _, c := range cs {
		g := known[c.fingerprint.Exact] // which people made by splitting another
		if g.id == uuid.Nil {
			g = known[c.fingerprint.ID]
		}
		if c.group, c.known = g.id, g.closed; c.group == uuid.Nil {
			return fmt.Errorf("group %s was there and is gone", c.fingerprint.ID)
		}
	}
	return nil
}

// group is an existing group, and whether all its investigations are closed.
type group struct {
	id     uuid.UUID
	closed bool
}

// findGroups sets the groups of the fingerprints that have none.
func findGroups(ctx context.Context, tx pgx.Tx, known map[string]group) error {
	const doing = "find groups"
	var wanted []string
	for fingerprint, g := range known {
		if g.id == uuid.Nil {
			wanted = append(wanted, fingerprint)
		}
	}
	rows, err := tx.Query(ctx, groupFind, wanted)
	if err != nil {
		return translate(doing, err)
	}
	var fingerprint string
	var g group
	_, err = pgx.ForEachRow(rows, []any{&fingerprint, &g.id, &g.closed}, func() error { known[fingerprint] = g; return nil })
	return translate(doing, err)
}

// insertGroups makes the openings' groups, each once.
func insertGroups(ctx context.Context, tx pgx.Tx, cs []*opening) error {
	byFingerprint := func(a, b *opening) int { return cmp.Compare(a.fingerprint.ID, b.fingerprint.ID) }
	slices.SortStableFunc(cs, byFingerprint)
	cs = slices.CompactFunc(cs, func(a, b *opening) bool { return byFingerprint(a, b) == 0 })
	type C = *opening
	_, err := tx.Exec(ctx, groupInsert,
		column(cs, func(c C) string { return c.fingerprint.ID }),
		dlq.FingerprintVersion,
		column(cs, func(c C) string { parts, _ := json.Marshal(c.fingerprint.Parts); return string(parts) }), // strings always can be
		column(cs, func(c C) string { return c.fingerprint.Parts.Title() }),
		column(cs, func(c C) string { return c.first.OriginTopic }),
		column(cs, func(c C) string { return c.first.ErrorCode }),
		column(cs, func(c C) string { return strings.ToValidUTF8(dlq.Word(c.first.ErrorCode, c.first.ErrorMessage), "") }),
		column(cs, func(c C) pgtype.Timestamptz { return nullTime(c.lastOccurred) }))
	return translate("make groups", err)
}
