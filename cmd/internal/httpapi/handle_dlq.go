package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// entryFilter reads the parameters that select investigations.
func entryFilter(r *Request) (dlq.Filter, error) {
	var f api.EntryFilter
	if err := r.texts(api.Fields(&f)); err != nil {
		return dlq.Filter{}, err
	}
	parsed, err := f.Parse()
	return parsed, refuseField("parameter ", err)
}

// entrySearch reads the parameters that select and order investigations.
func entrySearch(r *Request) (dlq.Search, error) {
	f, err := entryFilter(r)
	if err != nil {
		return dlq.Search{}, err
	}
	by, err := oneOf(r, "order_by", dlq.ByCreated, dlq.ByCreated, dlq.ByUpdated)
	if err != nil {
		return dlq.Search{}, err
	}
	dir, err := oneOf(r, "order_dir", "desc", "desc", "asc")
	return dlq.Search{Filter: f, OrderBy: by, Ascending: dir == "asc"}, err
}

func (s *Services) listEntries(ctx context.Context, r *Request) (any, error) {
	p, err := s.page(r)
	if err != nil {
		return nil, err
	}
	q, err := entrySearch(r)
	if err != nil {
		return nil, err
	}
	if q.After, err = r.text("after"); err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	q.Filter.Limit, q.Filter.Offset = p.Size, p.Offset
	found, err := s.Investigations.Find(ctx, q)
	if err != nil {
		return nil, err
	}
	return api.NewEntryList(found, q.Filter), nil
}

// neighbours finds what is before and behind an investigation in the list that GET /dlq has for the same parameters.
func (s *Services) neighbours(ctx context.Context, r *Request) (any, error) {
	id, err := r.id("id")
	if err != nil {
		return nil, err
	}
	q, err := entrySearch(r)
	if err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	found, err := s.Investigations.Neighbours(ctx, id, q)
	if err != nil {
		return nil, err
	}
	return api.NewNeighbours(found), nil
}

// getEntry finds an investigation by its own id, or by the id of the task that it, or its event, is about.
func (s *Services) getEntry(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var d dlq.Detail
	if err = dlq.CheckSeen(ctx, s.Investigations, dlq.AnEntry, id); err == nil {
		d, err = s.Investigations.Show(ctx, id)
	}
	if errors.Is(err, dlq.ErrNotFound) {
		if d, err = s.Investigations.ShowTask(ctx, id); err == nil {
			err = dlq.CheckSeen(ctx, s.Investigations, dlq.AnEntry, d.UUID)
		}
	}
	if errors.Is(err, dlq.ErrNotFound) {
		return nil, refuse(NotFound, "there is no investigation %s, nor one of a task with this id or of its events", id)
	}
	if err != nil {
		return nil, err
	}
	done, err := s.Access.EntryHistory(ctx, d.UUID.String(), api.OperationsOf(d))
	return api.NewDetail(d, done, nil), err
}

func (s *Services) changeEntry(ctx context.Context, r *Request) (any, error) {
	id, err := r.only("id")
	if err != nil {
		return nil, err
	}
	var b changeEntryBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	if b.Notes != nil && b.Alias != nil {
		return nil, refuse(Validation, "notes means the same as resolution_notes; give one of them")
	}
	if b.Alias != nil {
		b.Notes = b.Alias
	}
	e, err := s.Investigations.Change(ctx, id, dlq.Change{Status: b.Status, Notes: b.Notes, ResolvedBy: b.ResolvedBy, Metadata: unlessNull(b.Metadata), Assignee: b.Assignee, IfAssignee: b.IfAssignee, Actor: r.Actor.Name})
	if err != nil {
		return nil, err
	}
	return api.NewChangedEntry(e), nil
}

func (b *editBody) edit() (*dlq.Edit, error) {
	e := &dlq.Edit{Tombstone: b.Tombstone}
	ways := 0
	if b.Payload != nil {
		ways, e.Payload = ways+1, b.Payload
	}
	if b.Base64 != nil {
		ways, e.Payload = ways+1, *b.Base64
	}
	if b.Text != nil {
		ways, e.Payload = ways+1, []byte(*b.Text)
	}
	if b.Tombstone {
		ways++
	}
	switch {
	case ways > 1:
		return nil, refuse(Validation, "edit gives the payload in %d ways; give payload, payload_text, payload_base64 or tombstone", ways)
	case ways == 0 && b.Headers == nil:
		return nil, refuse(Validation, "edit changes nothing; leave it out")
	}
	if b.Headers != nil {
		hs, err := message.ParseHeaders(b.Headers)
		if err != nil {
			return nil, refuse(Validation, "edit: %s", shown(err.Error()))
		}
		if e.Headers = hs; hs == nil {
			e.Headers = []message.Header{}
		}
	}
	return e, nil
}

// maxWaitSeconds is how long a request waits for the answers of sources: operations of the API have about 20 seconds.
const maxWaitSeconds = 10

func (s *Services) requeue(ctx context.Context, r *Request) (any, error) {
	began := time.Now()
	var b requeueBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	if err := mayTarget(r, b.Target); err != nil {
		return nil, err
	}
	ids, err := s.entryIDs(ctx, b.IDs, s.RequeueLimit)
	if err != nil {
		return nil, err
	}
	req := dlq.RedriveRequest{Entries: ids, Target: b.Target, Actor: r.Actor.Name}
	if b.MaxHops != nil {
		if req.MaxHops = *b.MaxHops; req.MaxHops == 0 {
			return nil, refuse(Validation, "max_hops is 0; it must be 1 to %d", dlq.MaxMaxHops)
		}
	}
	if req.Wait, err = waitOf(b.WaitSeconds); err != nil {
		return nil, err
	}
	if b.Edit != nil {
		if !r.Actor.May(access.Edit) {
			return nil, refuse(Forbidden, "changing a message before it is sent again needs the scope %s, which the key %q does not have", access.Edit, r.Actor.Name)
		}
		if req.Edit, err = b.Edit.edit(); err != nil {
			return nil, err
		}
	}
	if b.DryRun {
		would, err := s.Redriver.Preview(ctx, req)
		if err != nil {
			return nil, err
		}
		v := api.NewRequeued(ids, would)
		v.DryRun = true
		return v, nil
	}
	done, err := s.Redriver.Redrive(ctx, req)
	if err != nil {
		return nil, err
	}
	s.say("dlq.requeue", began, "requeued", len(done.Entries), "skipped", len(done.Skipped), "actor", r.Actor.Name, "request_id", r.Actor.RequestID)
	return api.NewRequeued(ids, done), nil
}

// waitOf reads how long a request waits for the answers of sources; 0 where it does not say.
func waitOf(seconds *int) (time.Duration, error) {
	if seconds == nil {
		return 0, nil
	}
	if *seconds < 1 || *seconds > maxWaitSeconds {
		return 0, refuse(Validation, "wait_seconds is %d; it must be 1 to %d", *seconds, maxWaitSeconds)
	}
	return time.Duration(*seconds) * time.Second, nil
}

// releaseKeys lets the keys go that the events of investigations halt.
func (s *Services) releaseKeys(ctx context.Context, r *Request) (any, error) {
	var b releaseBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	ids, err := s.entryIDs(ctx, b.IDs, s.RequeueLimit)
	if err != nil {
		return nil, err
	}
	req := dlq.ReleaseRequest{Entries: ids, Actor: r.Actor.Name}
	if req.Wait, err = waitOf(b.WaitSeconds); err != nil {
		return nil, err
	}
	done, err := s.Redriver.Release(ctx, req)
	if err != nil {
		return nil, err
	}
	return api.NewReleasedKeys(ids, done), nil
}

// previewRequeue says where the message of an investigation would be sent, and whom it would reach there.
func (s *Services) previewRequeue(ctx context.Context, r *Request) (any, error) {
	id, err := r.id("id")
	if err != nil {
		return nil, err
	}
	target, err := r.text("target")
	if err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	if err := mayTarget(r, target); err != nil {
		return nil, err
	}
	would, err := s.Redriver.Preview(ctx, dlq.RedriveRequest{Entries: []uuid.UUID{id}, Target: target, Actor: r.Actor.Name})
	if err != nil {
		return nil, err
	}
	v := api.NewRequeued([]uuid.UUID{id}, would)
	v.DryRun = true
	return v, nil
}

// distinctIDs reads 1 to limit ids. One that is given twice counts once.
func distinctIDs(texts []string, limit int) ([]uuid.UUID, error) {
	if len(texts) == 0 || len(texts) > limit {
		return nil, refuse(Validation, "ids has %d elements; it must have 1 to %d", len(texts), limit)
	}
	ids := make([]uuid.UUID, 0, len(texts))
	seen := map[uuid.UUID]bool{}
	for _, text := range texts {
		id, err := parseID("an element of ids", text)
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			ids, seen[id] = append(ids, id), true
		}
	}
	return ids, nil
}

func (s *Services) purgeEntries(ctx context.Context, r *Request) (any, error) {
	began := time.Now()
	var b purgeBody
	if err := r.body(&b); err != nil {
		return nil, err
	}
	var names []string
	for _, f := range api.Fields(&b.EntryFilter) {
		names = append(names, f.Name)
	}
	if err := r.saysWhich(names...); err != nil {
		return nil, err
	}
	if (b.IDs != nil) == (b.OlderThan != nil) {
		return nil, refuse(Validation, "give either ids or older_than")
	}
	if b.To != "" {
		return nil, refuse(Validation, "give older_than and not to: a purge is about what is older")
	}
	f, err := b.EntryFilter.Parse()
	if err != nil {
		return nil, refuseField("", err)
	}
	p := dlq.Purge{Filter: f, Limit: s.PurgeLimit, ReleaseKeys: b.ReleaseKeys, Actor: r.Actor.Name}
	if b.IDs != nil {
		if p.Entries, err = s.entryIDs(ctx, b.IDs, s.PurgeLimit); err != nil {
			return nil, err
		}
	} else {
		at, ok := api.ParseTime(*b.OlderThan, false)
		if !ok || at.IsZero() {
			return nil, refuse(Validation, "older_than is %q; it must be %s", shown(*b.OlderThan), api.WantTime(*b.OlderThan))
		}
		p.OlderThan = at
	}
	done, err := s.Investigations.Purge(ctx, p)
	if err != nil {
		return nil, err
	}
	s.say("dlq.purge", began, "purged", done.Entries, "reason", b.Reason, "actor", r.Actor.Name, "request_id", r.Actor.RequestID)
	return api.NewPurged(p, done), nil
}

func (s *Services) dlqStats(ctx context.Context, r *Request) (any, error) {
	began := time.Now()
	if err := r.unread(); err != nil {
		return nil, err
	}
	count := func(ctx context.Context) (dlq.Stats, error) { return s.stats.get(ctx, s.Investigations.Stats) }
	if dlq.SourcesOf(ctx) != nil {
		count = s.Investigations.Stats // what is shared is of all sources
	}
	st, err := count(ctx)
	if err != nil {
		return nil, err
	}
	s.say("dlq.stats", began, "total", st.Total, "last_24h", st.Last24h, "distinct_reasons", len(st.ByReason))
	return api.NewStats(st), nil
}

// revealLetter shows the bytes of a letter. Who looked is in the audit log before it is shown.
func (s *Services) revealLetter(ctx context.Context, r *Request) (any, error) {
	id, err := r.id("id")
	if err != nil {
		return nil, err
	}
	req := dlq.RevealRequest{Entry: id, Actor: r.Actor.Name}
	if req.LetterID, err = r.text("letter_id"); err != nil {
		return nil, err
	}
	if req.Reason, err = r.text("why"); err != nil {
		return nil, err
	}
	if err := r.unread(); err != nil {
		return nil, err
	}
	l, err := s.Investigations.Reveal(ctx, req)
	if err != nil {
		return nil, err
	}
	return api.NewRevealedLetter(&l), nil
}
