package console

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
)

// TestABrowserThatLeftIsNoError: a page whose request ended was not made, and nothing failed; with a browser that waits, it did.
func TestABrowserThatLeftIsNoError(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{true, false} {
		var log bytes.Buffer
		c, err := New(Config{API: struct{ API }{}, Sessions: struct{ Sessions }{}, Outbox: struct{ Outbox }{}, Investigations: struct{ Investigations }{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		p := page{pattern: "GET /causes", scope: access.Read, template: "causes", show: func(*visit) error {
			if left {
				leave()
			}
			return context.Canceled
		}}
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/causes", nil)
		c.visit(httptest.NewRecorder(), r, p, access.Session{Name: "ann", Scopes: []access.Scope{access.Read}, Sources: access.AllSources()})
		if failed := strings.Contains(log.String(), "level=ERROR"); failed == left {
			t.Errorf("the browser has left: %v, the log says %q", left, log.String())
		}
	}
}
