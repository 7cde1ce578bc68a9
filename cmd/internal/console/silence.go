package console

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

const (
	// silenceLimit is how long the database may take to answer a ping. Without pings it is how long it may take to say whose
	// a session is.
	silenceLimit = 1500 * time.Millisecond
	// pingEvery is how often it is pinged while people look.
	pingEvery = 300 * time.Millisecond
	// sessionLimit bounds what is asked about sessions while the database answers pings: it may wait for a connection.
	sessionLimit = 20 * time.Second
)

// errSilent is that the database does not answer: a server that is stopped, or cut off, refuses nothing, and what is asked of
// it waits without end.
var errSilent = &httpapi.Error{Code: httpapi.Unavailable, Database: true, Message: "Events are safe: they stay in the table until it is back. This page asks again every 5 seconds."}

// listen pings the database until ctx ends, while people look, while something is read, and until a silent database answers.
// A read may take as long as it takes; when a ping is not answered, all that are under way end.
func (s *sampler) listen(ctx context.Context) {
	if s.database == nil {
		return
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), silenceLimit)
		defer cancel()
		_ = s.database.Close(ending) // the server sees its end
	}()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !s.isWatched() && s.asking.Load() == 0 && !s.isSilent() {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, silenceLimit)
		err := s.database.Ping(asking)
		late := asking.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.heard(err == nil, late)
	}
}

// heard notes how a ping ended. One that is refused says nothing of silence: reads are refused as well, and say why.
func (s *sampler) heard(answered, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isSilent() && !late:
		s.silent = make(chan struct{})
		if answered {
			s.wakeRun()
		}
	case !s.isSilent() && late:
		close(s.silent)
		s.fail(errSilent)
		s.tell()
	}
}

// isSilent reports whether the last ping was not answered.
func (s *sampler) isSilent() bool {
	select {
	case <-s.silent:
		return true
	default:
		return false
	}
}

// whileItAnswers is ctx until the database does not answer. Its cause is errSilent then.
func (s *sampler) whileItAnswers(ctx context.Context) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	silent := s.silent
	s.mu.Unlock()
	s.asking.Add(1)
	reading, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-silent:
			cancel(errSilent)
		case <-reading.Done():
		}
	}()
	return reading, sync.OnceFunc(func() {
		s.asking.Add(-1)
		cancel(nil)
	})
}

// ifSilent returns errSilent where ctx ended because the database does not answer, and err elsewhere.
func ifSilent(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// promptly ends what is asked about sessions when the database does not answer: pages cannot be shown before.
type promptly struct {
	Sessions
	figures *sampler
}

// bounded is ctx until the database does not answer, or what is asked takes too long.
func (p promptly) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.figures.database == nil {
		return context.WithTimeout(ctx, silenceLimit)
	}
	answering, done := p.figures.whileItAnswers(ctx)
	ctx, cancel := context.WithTimeout(answering, sessionLimit)
	return ctx, func() { cancel(); done() }
}

// Session implements Sessions.
func (p promptly) Session(ctx context.Context, token string, use access.Use) (access.Session, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.Sessions.Session(ctx, token, use)
}

// LinkOf implements Sessions.
func (p promptly) LinkOf(ctx context.Context, link string) (string, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.Sessions.LinkOf(ctx, link)
}

// SessionByKey implements Sessions.
func (p promptly) SessionByKey(ctx context.Context, key string, age time.Duration) (access.Session, string, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.Sessions.SessionByKey(ctx, key, age)
}

// SessionByLink implements Sessions.
func (p promptly) SessionByLink(ctx context.Context, link string, age time.Duration) (access.Session, string, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.Sessions.SessionByLink(ctx, link, age)
}

// SessionByPerson implements Sessions.
func (p promptly) SessionByPerson(ctx context.Context, who access.Person, age time.Duration) (access.Session, string, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.Sessions.SessionByPerson(ctx, who, age)
}
