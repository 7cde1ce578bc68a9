package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/dlq"
)

const (
	// commandsAtOnce and commandBytes bound what is sent to a source in one call.
	commandsAtOnce = 500
	commandBytes   = 4 << 20
	// obeyLimit bounds a call: a source that does not answer by then is asked again.
	obeyLimit = 10 * time.Second
)

// SentCommands says what became of a call of SendCommands.
type SentCommands struct {
	// Answered is how many commands the source answered.
	Answered int
	// Busy is how many it is to be asked again in a moment.
	Busy int
	// More says that the call was full: there may be others.
	More bool
}

// SendCommands sends a source the commands that it has not answered, in their order, and notes what it answers. desk is the
// identity of this desk: the source obeys one. No transaction is open meanwhile, and none is needed: a command acts once, however
// often it is sent, and commands to one key are done in their order within a call. So any number of processes may
// send.
func (r *Redriver) SendCommands(ctx context.Context, desk, source string, database *pgxpool.Pool) (sent SentCommands, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	c := call{desk: desk, source: source}
	if due, err := r.SourcesDue(ctx, []string{source}); err != nil || len(due) == 0 {
		return sent, err
	}
	if _, err := r.Confirm(ctx, desk, source, database); err != nil {
		return sent, err
	}
	if err := r.draw(ctx, &c); err != nil || len(c.commands) == 0 {
		return sent, err
	}
	answers, err := obey(ctx, database, c)
	if err != nil {
		return sent, fmt.Errorf("source %s: %w", source, err)
	}
	err = transact(ctx, r.pool, answersBegin(answers), func(tx pgx.Tx) error { return noteAnswers(ctx, tx, c, answers) })
	if err != nil {
		return sent, err
	}
	r.noted.ring()
	for _, a := range answers {
		if a.answer == dlq.AnswerBusy {
			sent.Busy++
		}
	}
	sent.Answered, sent.More = len(answers)-sent.Busy, c.full()
	return sent, nil
}

// call is one call of outbox_obey.
type call struct {
	desk, source string
	// number is drawn for it; answered is the highest number whose answers were noted before.
	number, answered int64
	commands         []string
}

// full reports whether the call may have had no room for others. What fills commandBytes is counted compressed.
func (c call) full() bool {
	bytes := 0
	for _, text := range c.commands {
		bytes += len(text)
	}
	return len(c.commands) == commandsAtOnce || bytes >= commandBytes/2
}

// draw draws the number of a call, and reads what it is to send. Without commands no number is drawn.
func (r *Redriver) draw(ctx context.Context, c *call) error {
	return transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, commandUnanswered, c.source, commandsAtOnce, commandBytes)
		if err != nil {
			return translate("read commands", err)
		}
		if c.commands, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(c.commands) == 0 {
			return translate("read commands", err)
		}
		err = tx.QueryRow(ctx, sourceDraw, c.source).Scan(&c.number, &c.answered)
		if errors.Is(err, pgx.ErrNoRows) {
			return errSourceMoved // it was stopped meanwhile
		}
		return translate("draw the number of a call", err)
	})
}

// answered is what a source said of a command.
type answered struct {
	command uuid.UUID
	answer  string
	event   int64
	detail  string
}

// obey sends commands to a source.
func obey(ctx context.Context, database *pgxpool.Pool, c call) ([]answered, error) {
	ctx, cancel := context.WithTimeout(ctx, obeyLimit)
	defer cancel()
	answers := make([]answered, len(c.commands))
	for i, text := range c.commands {
		if err := json.Unmarshal([]byte(text), &struct{ Command *uuid.UUID }{&answers[i].command}); err != nil {
			return nil, fmt.Errorf("read a command: %w", err)
		}
	}
	rows, err := database.Query(ctx, outboxObey, c.desk, "["+strings.Join(c.commands, ",")+"]", c.number, c.answered)
	if err != nil {
		return nil, err
	}
	var place int
	var a answered
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&place, &a.answer, &a.event, &a.detail}, func() error {
		if place < 1 || place > len(answers) {
			return fmt.Errorf("it answered command %d of %d", place, len(answers))
		}
		a.command = answers[place-1].command
		answers[place-1] = a
		n++
		return nil
	})
	if err == nil && n != len(answers) {
		err = fmt.Errorf("it answered %d of %d commands", n, len(answers))
	}
	return answers, err
}

// answersBegin is how the transaction begins that notes answers. If an act is lost, the source is asked again, and answers the same. If
// a refusal were lost, the source might obey after people were told that it refused: these wait for the disk.
func answersBegin(answers []answered) string {
	for _, a := range answers {
		if a.answer != dlq.AnswerBusy && !dlq.ActAnswer(a.answer) {
			return steady
		}
	}
	return unhurried
}

// noteAnswers writes what a source said, and that the call is answered.
func noteAnswers(ctx context.Context, tx pgx.Tx, c call, answers []answered) error {
	const doing = "note what a source answered"
	if _, err := tx.Exec(ctx, sourceHeard, c.source, c.number); err != nil {
		return translate(doing, err)
	}
	rows, err := tx.Query(ctx, commandAnswer,
		column(answers, func(a answered) uuid.UUID { return a.command }),
		column(answers, func(a answered) string { return a.answer }),
		column(answers, func(a answered) int64 { return a.event }),
		column(answers, func(a answered) string { return a.detail }))
	if err != nil {
		return translate(doing, err)
	}
	var operations, entries []uuid.UUID
	var reasons []string
	var operation, entry uuid.UUID
	var reason string
	_, err = pgx.ForEachRow(rows, []any{&operation, &entry, &reason}, func() error {
		operations, entries, reasons = append(operations, operation), append(entries, entry), append(reasons, reason)
		return nil
	})
	if err != nil || len(operations) == 0 {
		return translate(doing, err)
	}
	_, err = tx.Exec(ctx, operationRefused, operations, entries, reasons)
	return translate(doing, err)
}

// SourcesDue returns which of these sources have something to be asked, by SendCommands or FollowSource.
func (r *Redriver) SourcesDue(ctx context.Context, sources []string) (due []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, commandDue, sources)
		if err != nil {
			return translate("look for commands", err)
		}
		due, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return translate("look for commands", err)
	})
	return due, err
}

// FollowSource is Follow for the redrives that a source carries: its database says how their events stand.
func (r *Redriver) FollowSource(ctx context.Context, desk, source string, database *pgxpool.Pool, limit int, resolve bool) (dlq.Followed, error) {
	if _, err := r.Confirm(ctx, desk, source, database); err != nil {
		return dlq.Followed{}, err
	}
	cursor, _ := r.followed.LoadOrStore(source, &redriveCursor{})
	return r.followAll(ctx, following{source, database, cursor.(*redriveCursor)}, limit, resolve)
}

// WaitingCommands returns how many commands each of these sources has not answered; the ones without are left out.
func (r *Redriver) WaitingCommands(ctx context.Context, sources []string) (all []dlq.WaitingCommands, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		all = nil
		return eachWaiting(ctx, tx, sources, func(w dlq.WaitingCommands, _ time.Time) { all = append(all, w) })
	})
	return all, err
}

// eachWaiting calls f for each of the sources that has not answered commands, with the time when it was last busy.
func eachWaiting(ctx context.Context, tx pgx.Tx, sources []string, f func(w dlq.WaitingCommands, busy time.Time)) error {
	rows, err := tx.Query(ctx, commandOldest, sources)
	if err != nil {
		return translate("look for commands", err)
	}
	var w dlq.WaitingCommands
	var busy pgtype.Timestamptz
	_, err = pgx.ForEachRow(rows, []any{&w.Source, &w.Count, &w.Oldest, &busy}, func() error { f(w, busy.Time); return nil })
	return translate("look for commands", err)
}

// Commands returns the newest commands that the filter selects.
func (r *Redriver) Commands(ctx context.Context, f dlq.CommandFilter) (all []dlq.SourceCommand, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	rows, err := r.pool.Query(ctx, commandList, f.Before, f.Limit, dlq.OnlySource(ctx, f.Source), string(f.State))
	if err != nil {
		return nil, translate("list commands", err)
	}
	all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (c dlq.SourceCommand, err error) {
		var at pgtype.Timestamptz
		err = row.Scan(&c.UUID, &c.Number, &c.Source, &c.Kind, &c.Entry, &c.Redrive, &c.OutboxID, &c.Event, &c.Episode, &c.Actor, &c.CreatedAt, &at, &c.Answer, &c.Detail)
		c.AnsweredAt = at.Time
		return c, err
	})
	return all, translate("list commands", err)
}

// ForgetCommands removes commands that were answered longer ago than keep, limit of them at most. It returns how many are gone,
// and whether another call may find more.
func (r *Redriver) ForgetCommands(ctx context.Context, keep time.Duration, limit int) (gone int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err = transact(ctx, r.pool, steady, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, commandForget, keep.Microseconds(), limit)
		gone = int(tag.RowsAffected())
		return translate("remove old commands", err)
	})
	return gone, err == nil && gone == limit, err
}
