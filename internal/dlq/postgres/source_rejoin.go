package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/dlq"
)

// answeredAtOnce is how many commands a source is asked about at once.
const answeredAtOnce = 1000

// SourceDatabase is the database of a source, for people's commands.
type SourceDatabase interface {
	querier
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// PlanRejoin says what leads a source back, and changes nothing.
func (r *Redriver) PlanRejoin(ctx context.Context, req dlq.RejoinRequest, database SourceDatabase) (dlq.Rejoin, error) {
	plan, _, _, err := r.planRejoin(ctx, req, database)
	return plan, err
}

func (r *Redriver) planRejoin(ctx context.Context, req dlq.RejoinRequest, database SourceDatabase) (plan dlq.Rejoin, now sourceNow, acts []json.RawMessage, err error) {
	plan.Source = req.Source
	known, err := r.known(ctx, req.Source)
	if err != nil {
		return plan, now, nil, err
	}
	if now, err = readSource(ctx, database); err != nil {
		return plan, now, nil, fmt.Errorf("source %s: %w", req.Source, err)
	}
	reason, _ := known.judge(now)
	if stopped, is := errors.AsType[*dlq.StoppedError](known.refusal(req.Source, "")); is {
		reason = stopped.Reason
	}
	if known, err = r.known(ctx, req.Source); err != nil { // behind the source: see Confirm
		return plan, now, nil, err
	}
	if reason == "" && now.heard > known.drawn {
		reason = dlq.StopDeskRewound
	}
	if reason == dlq.StopDeskRewound && now.obeysAnother(req.Desk) {
		return plan, now, nil, fmt.Errorf("%w: the source %s belongs to the desk %s and does not obey this one, %s. To hand it over, the owner of its schema runs: update postrider.outbox_source set desk = null",
			dlq.ErrSource, req.Source, now.desk, req.Desk)
	}
	plan.Reason = reason
	plan.Copied = now.copied
	if plan.Reason == "" {
		return plan, now, nil, nil
	}
	if plan.Undone, err = r.undone(ctx, req.Source, database); err != nil {
		return plan, now, nil, err
	}
	plan.Acts, acts, err = r.actsAfter(ctx, req, known.drawn, database)
	return plan, now, acts, err
}

// Rejoin leads a source back, as PlanRejoin says it. Where there is nothing to lead back it does nothing.
func (r *Redriver) Rejoin(ctx context.Context, req dlq.RejoinRequest, database SourceDatabase) (dlq.Rejoin, error) {
	plan, now, acts, err := r.planRejoin(ctx, req, database)
	if err != nil || plan.Nothing() {
		return plan, err
	}
	if n := plan.MissingLetters(); n > 0 && !req.WithoutLetters {
		return plan, fmt.Errorf("%w: the source %s redrove %d events whose dead letters this desk does not have: let the collector read them again first (docs/restoring.md, step 6), or leave them out (--without-letters, without_letters): what people redrive of them later may be sent twice",
			dlq.ErrSource, req.Source, n)
	}
	if plan.Copied {
		// First the source: where the rest fails, the next call does it.
		if err := database.QueryRow(ctx, sourceMoved, req.Source, req.Actor).Scan(new(bool)); err != nil {
			return plan, fmt.Errorf("source %s: %w", req.Source, err)
		}
	}
	if plan.Reason == "" {
		plan.Done = true
		return plan, nil
	}
	given, err := json.Marshal(append([]json.RawMessage{}, acts...))
	if err != nil {
		return plan, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, sourceRejoin, req.Source, now.id, now.heard, now.receipt,
			column(plan.Undone, func(u dlq.UndoneCommand) uuid.UUID { return u.UUID }), string(given)).Scan(&plan.Forgotten, &plan.Again, &plan.Noted)
		if err != nil {
			return translate("lead a source back", err)
		}
		return r.audit.Audit(ctx, tx, req.Actor, "source.rejoin", "source", req.Source, []string{req.Source},
			map[string]any{"reason": plan.Reason, "undone": plan.Forgotten, "again": plan.Again, "noted": plan.Noted, "missing_letters": plan.MissingLetters()})
	})
	plan.Done = err == nil
	return plan, err
}

// undone returns the commands that a source answered and that it does not know any more.
func (r *Redriver) undone(ctx context.Context, source string, database querier) (all []dlq.UndoneCommand, err error) {
	for last := int64(0); ; {
		var page []dlq.UndoneCommand
		err := transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, sourceAnswered, source, last, answeredAtOnce)
			if err != nil {
				return translate("read commands", err)
			}
			page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (u dlq.UndoneCommand, err error) {
				u.Source = source
				err = row.Scan(&u.UUID, &u.Number, &u.Kind, &u.Entry, &u.Redrive, &u.OutboxID, &u.Event, &u.Episode, &u.Actor, &u.CreatedAt, &u.AnsweredAt, &u.Answer, &u.Outcome)
				return u, err
			})
			return translate("read commands", err)
		})
		if err != nil || len(page) == 0 {
			return all, err
		}
		last = page[len(page)-1].Number
		type U = dlq.UndoneCommand
		rows, err := database.Query(ctx, outboxObeyed,
			column(page, func(u U) uuid.UUID { return u.UUID }), column(page, func(u U) string { return string(u.Kind) }),
			column(page, func(u U) int64 { return u.OutboxID }), column(page, func(u U) uuid.UUID { return u.Event }),
			column(page, func(u U) int32 { return u.Episode }))
		if err != nil {
			return all, fmt.Errorf("source %s: %w", source, err)
		}
		var place int
		var obeyed bool
		_, err = pgx.ForEachRow(rows, []any{&place, &obeyed}, func() error {
			if !obeyed {
				all = append(all, page[place-1])
			}
			return nil
		})
		if err != nil {
			return all, fmt.Errorf("source %s: %w", source, err)
		}
	}
}

// actsAfter returns what a source did for this desk by calls with higher numbers than one, and the same as
// dlq_rejoin_source takes it.
func (r *Redriver) actsAfter(ctx context.Context, req dlq.RejoinRequest, call int64, database querier) (all []dlq.SourceAct, given []json.RawMessage, err error) {
	rows, err := database.Query(ctx, sourceCommands, req.Desk, call)
	if err != nil {
		return nil, nil, fmt.Errorf("source %s: %w", req.Source, err)
	}
	all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a dlq.SourceAct, err error) {
		var text string
		if err := row.Scan(&a.Command, &a.Answer, &a.OutboxID, &a.Event, &a.Episode, &a.Sent, &a.Actor, &a.At, &text); err != nil {
			return a, err
		}
		given = append(given, json.RawMessage(text))
		return a, nil
	})
	if err != nil || len(all) == 0 {
		return all, given, err
	}
	letter := func(a dlq.SourceAct) string { return fmt.Sprintf("%s/event:%s:%d", req.Source, a.Event, a.Episode) }
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sourceActs, column(all, func(a dlq.SourceAct) uuid.UUID { return a.Command }), column(all, letter))
		if err != nil {
			return translate("compare what a source did", err)
		}
		i := 0
		var known, has bool
		_, err = pgx.ForEachRow(rows, []any{&known, &has}, func() error {
			all[i].Known, all[i].HasLetter = known, has
			i++
			return nil
		})
		return translate("compare what a source did", err)
	})
	return all, given, err
}

// ForgetSource says that a source is gone for good. Calling it again finds what was left, and nothing else.
func (r *Redriver) ForgetSource(ctx context.Context, source, actor string) (done dlq.ForgottenSource, err error) {
	if !dlq.ValidSource(source) || source == dlq.MainSource {
		return done, fmt.Errorf("%w: %q is no name of a source that can be forgotten; it must be %s, and not main", dlq.ErrRequest, source, dlq.WantSource)
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		done = dlq.ForgottenSource{Source: source}
		if err := tx.QueryRow(ctx, sourceForget, source).Scan(&done.Commands, &done.Redrives, &done.Since); err != nil {
			return translate("forget a source", err)
		}
		return r.audit.Audit(ctx, tx, actor, "source.forget", "source", source, []string{source}, map[string]any{"commands": done.Commands, "redrives": done.Redrives})
	})
	return done, err
}

// KnownSources returns the sources that the desk knows, in the order of their names.
func (r *Redriver) KnownSources(ctx context.Context) (all []dlq.KnownSource, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sourceKnown)
		if err != nil {
			return translate("list sources", err)
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (s dlq.KnownSource, err error) {
			var k knownSource
			err = row.Scan(&s.Name, &s.Stopped, &k.stoppedAt, &k.forgottenAt, &s.Waiting, &s.Pending)
			s.StoppedAt = k.stoppedAt.Time
			if k.forgottenAt.Valid {
				s.Stopped, s.StoppedAt = dlq.StopForgotten, k.forgottenAt.Time
			}
			return s, err
		})
		return translate("list sources", err)
	})
	return all, err
}

// KnowsSource reports whether the desk has anything of a source: what it has seen of it, dead letters, or commands.
func (r *Redriver) KnowsSource(ctx context.Context, source string) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		return translate("look for a source", tx.QueryRow(ctx, sourceKnows, source).Scan(&known))
	})
	return known, err
}
