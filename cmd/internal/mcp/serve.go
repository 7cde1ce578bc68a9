package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ServeStdio serves one client on in and out until in ends or ctx does. The key of Config.Token must work when it
// begins.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	if _, err := s.actor(ctx); err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	limit := int(s.cfg.MaxBody)
	err := s.sdk.Run(ctx, &sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: limit})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil // that is how a client ends
	}
	return err
}

// Handler serves clients over streamable HTTP, without sessions: each request brings its key, as Authorization:
// Bearer, and is answered by any process, but for confirmations, which must come where the preview was made.
func (s *Server) Handler() http.Handler {
	streamable := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.sdk }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: s.cfg.MaxBody,
	})
	return s.origin(s.cfg.API.Guard(streamable))
}

// origin refuses web pages that are not listed: a browser sends for any page what its user could send. Listed pages
// are told that they may (CORS). Programs send no Origin.
func (s *Server) origin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origins := r.Header.Values("Origin")
		if len(origins) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Vary", "Origin")
		if len(origins) > 1 || !slices.Contains(s.cfg.AllowedOrigins, origins[0]) {
			http.Error(w, "this web page may not call; mcp.allowed_origins names the pages that may", http.StatusForbidden)
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", origins[0])
		if r.Method == http.MethodOptions { // a browser asks before it sends a key
			w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
			w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}
