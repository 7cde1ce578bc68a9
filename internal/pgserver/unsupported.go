//go:build !unix || aix || solaris

package pgserver

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// supported: no server runs on this system, so none is fetched.
const supported = false

// Server is a running PostgreSQL server; on this system there is none.
type Server struct{}

// Start reports that this system is not supported.
func Start(context.Context, Options) (*Server, error) {
	return nil, fmt.Errorf("pgserver: running PostgreSQL from local binaries on %s: %w; give the address of a running server, or use Docker", runtime.GOOS, errors.ErrUnsupported)
}

// URL is empty.
func (*Server) URL() string { return "" }

// Version is empty.
func (*Server) Version() string { return "" }

// Done is nil.
func (*Server) Done() <-chan struct{} { return nil }

// Crash does nothing.
func (*Server) Crash(context.Context) error { return nil }

// Stop does nothing.
func (*Server) Stop(context.Context) error { return nil }
