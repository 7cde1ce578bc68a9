package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
)

const (
	// maxStreams is how many open pages hear of changes at once; the others load anew by hand.
	maxStreams = 1000
	// sessionCheck is how often a stream of events looks whether its session still works.
	sessionCheck = 2 * time.Second
)

// events tells a page when there is something new to show, by Server-Sent Events. It tells no content: the page loads itself
// in the name of its person. The mark is of the figures of the person's sources, so that what happens at others changes no page. It ends with the session, and with the process.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	token := c.cookies.get(r, sessionCookie)
	look := func() (access.Session, error) { // it does not wait for a connection for long: the page hears nothing meanwhile
		ctx, cancel := context.WithTimeout(r.Context(), silenceLimit)
		defer cancel()
		return c.cfg.Sessions.Session(ctx, token, access.Watching)
	}
	person, err := look()
	if err != nil && !errors.Is(err, access.ErrUnknownSession) {
		known, is := c.known.find(token)
		if !is {
			http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
			return
		}
		person, err = known, nil // the page is told that it is not live, and when it is again
	}
	if err != nil || !c.stillNamed(r, person) || !person.Actor().May(access.Read) {
		http.Error(w, "there is no session, or it may not read", http.StatusUnauthorized)
		return
	}
	if c.streams.Add(1) > maxStreams {
		c.streams.Add(-1)
		http.Error(w, "too many pages are open; load this one anew to see what is new", http.StatusServiceUnavailable)
		return
	}
	defer c.streams.Add(-1)
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Time{}) // the server's bounds are for requests that end; a recorder in memory has none
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(event string, mark uint64) bool {
		_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, err := fmt.Fprintf(w, "event: %s\ndata: %x\n\n", event, mark)
		return err == nil && conn.Flush() == nil
	}
	check := time.NewTicker(sessionCheck)
	defer check.Stop()
	for {
		next := c.figures.next()
		f, _, failed := c.figures.of(r.Context(), person.Sources)
		event, mark := "figures", uint64(0)
		if f != nil {
			mark = f.Mark
		}
		if failed != nil {
			event = "away"
		}
		if !send(event, mark) {
			return
		}
		select {
		case <-next:
		case <-check.C:
			if _, err := look(); errors.Is(err, access.ErrUnknownSession) {
				send("ended", 0)
				return
			}
		case <-r.Context().Done():
			return
		case <-c.ended:
			return
		}
	}
}
