package httpapi

import (
	"context"
	"strconv"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/actions"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

func (s *Services) listEvents(ctx context.Context, r *Request) (any, error) {
	size, err := s.size(r)
	if err != nil {
		return nil, err
	}
	var asked api.EventFilter
	if err := r.texts(api.Fields(&asked)); err != nil {
		return nil, err
	}
	f, err := asked.Parse()
	if err != nil {
		return nil, refuseField("parameter ", err)
	}
	dir, err := oneOf(r, "order_dir", "desc", "desc", "asc")
	if err != nil {
		return nil, err
	}
	if f.After, err = r.place("after"); err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	f.OldestFirst, f.Limit = dir == "asc", size
	page, err := s.Outbox.Store().Events(ctx, f)
	return api.NewEventList(page), err
}

// event reads the number of an event from the path, and refuses parameters.
func (r *Request) event() (int64, error) {
	if err := r.unread(); err != nil {
		return 0, err
	}
	return r.row("id")
}

func (s *Services) getEvent(ctx context.Context, r *Request) (any, error) {
	id, err := r.event()
	return s.after(ctx, id, err)
}

// revealEvent shows what an event carries. Who looked is in the audit log before it is shown.
func (s *Services) revealEvent(ctx context.Context, r *Request) (any, error) {
	id, err := r.event()
	if err != nil {
		return nil, err
	}
	b, err := s.Outbox.Store().EventBytes(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := s.Access.Look(ctx, "payload.reveal", "event", strconv.FormatInt(id, 10), access.Sources{dlq.MainSource}, map[string]any{"event_id": b.EventID}); err != nil {
		return nil, err
	}
	return api.NewEventPayload(id, b), nil
}

// after answers with the event, unless what came before failed.
func (s *Services) after(ctx context.Context, id int64, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	e, err := s.Outbox.Store().Event(ctx, id)
	return api.EventOf(e), err
}

func (s *Services) skipEvent(ctx context.Context, r *Request) (any, error) {
	id, err := r.event()
	if err != nil {
		return nil, err
	}
	var b skipEventBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	if b.Reason == "" || len(b.Reason) > 4096 {
		return nil, refuse(Validation, "reason has %d bytes; it must say why in 1 to 4096", len(b.Reason))
	}
	return s.after(ctx, id, s.Outbox.Skip(ctx, r.Actor.Name, id, b.Reason))
}

func (s *Services) redriveEvent(ctx context.Context, r *Request) (any, error) {
	id, err := r.event()
	if err == nil {
		err = r.optional(&nothing{})
	}
	if err != nil {
		return nil, err
	}
	return s.after(ctx, id, s.Outbox.Redrive(ctx, r.Actor.Name, id))
}

func (s *Services) purgeDelivered(ctx context.Context, r *Request) (any, error) {
	var b purgeDeliveredBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	at, ok := api.ParseTime(b.OlderThan, false)
	if !ok {
		return nil, refuse(Validation, "older_than is %q; it must be %s", shown(b.OlderThan), api.WantTime(b.OlderThan))
	}
	done, err := s.Outbox.Purge(ctx, r.Actor.Name, actions.PurgeDelivered{OlderThan: at, Rows: b.Limit})
	if err != nil {
		return nil, err
	}
	return api.PurgedEvents{Purged: done.Rows, More: done.More}, nil
}

func (s *Services) listHolds(ctx context.Context, r *Request) (any, error) {
	size, err := s.size(r)
	if err != nil {
		return nil, err
	}
	f := postgres.HoldFilter{Limit: size + 1}
	if f.Topic, err = r.text("topic"); err != nil {
		return nil, err
	}
	if f.Cause, err = oneOf(r, "cause", "", relay.Causes()...); err != nil {
		return nil, err
	}
	if f.ID, err = r.place("hold_id"); err != nil {
		return nil, err
	}
	if f.After, err = r.holdPlace("after"); err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	holds, err := s.Outbox.Store().Holds(ctx, f)
	if err != nil {
		return nil, err
	}
	return api.NewHoldList(holds, size), nil
}

// holdPlace reads where a page of holds begins: the next of the page before.
func (r *Request) holdPlace(name string) (*postgres.HoldPlace, error) {
	text, err := r.text(name)
	if err != nil || text == "" {
		return nil, err
	}
	place, err := postgres.ParseHoldPlace(text)
	if err != nil {
		return nil, notAPlace(name, text)
	}
	return &place, nil
}

func (s *Services) releaseHold(ctx context.Context, r *Request) (any, error) {
	id, err := r.event()
	if err == nil {
		err = r.optional(&nothing{})
	}
	if err != nil {
		return nil, err
	}
	return s.Outbox.Release(ctx, r.Actor.Name, id)
}

func (s *Services) giveUpHold(ctx context.Context, r *Request) (any, error) {
	id, err := r.event()
	if err == nil {
		err = r.optional(&nothing{})
	}
	if err != nil {
		return nil, err
	}
	return s.Outbox.GiveUp(ctx, r.Actor.Name, id)
}

func (s *Services) status(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	outbox, err := s.Outbox.Store().Status(ctx)
	if err != nil {
		return nil, err
	}
	detector, err := s.Tasks.Ledger().DetectorStatus(ctx)
	if err != nil {
		return nil, err
	}
	archiver, err := s.engineSwitch(ctx, ledger.EngineArchiver)
	if err != nil {
		return nil, err
	}
	operations, err := s.Redriver.ListOperations(ctx, dlq.OperationFilter{Open: true}, uuid.Nil, 100)
	if err != nil {
		return nil, err
	}
	return api.NewStatus(outbox, detector, archiver, operations), nil
}
