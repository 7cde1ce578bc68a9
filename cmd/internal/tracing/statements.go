package tracing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"
	"regexp"
	"strings"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/tracecontext"
)

// statements makes spans by otelpgx, under spans that are recorded and nowhere else: a relay that finds nothing asks the
// database as often as one that does. otelpgx gets no values of statements, also none that an error quotes.
type statements struct{ next *otelpgx.Tracer }

var (
	_ pgx.QueryTracer   = statements{}
	_ pgx.BatchTracer   = statements{}
	_ pgx.ConnectTracer = statements{}
)

// Statements makes spans of what connections do: statements, batches of them, and connecting. A statement's span has the
// name of its file in one of the given, without .sql, or of the function of our schema that it calls, or its first word. The
// text is not in it: with its name it is found in the sources, and some texts are put together.
func Statements(p trace.TracerProvider, files ...fs.FS) (pgx.QueryTracer, error) {
	names, err := queryNames(files)
	if err != nil {
		return nil, err
	}
	name := func(ctx context.Context, text string) string {
		if name := names[strings.TrimSpace(text)]; name != "" {
			return name
		}
		if called := calledFunction.FindStringSubmatch(text); called != nil {
			return called[1]
		}
		return otelpgx.SQLOperationName(ctx, text)
	}
	return statements{otelpgx.NewTracer(otelpgx.WithTracerProvider(p), otelpgx.WithDisableSQLStatementInAttributes(), otelpgx.WithSpanNameCtxFunc(name))}, nil
}

// calledFunction finds a function of our schema that a statement calls.
var calledFunction = regexp.MustCompile(`\bpostrider\.([a-z_]+)\(`)

// queryNames are the names of all .sql files, by their contents.
func queryNames(files []fs.FS) (map[string]string, error) {
	names := map[string]string{}
	for _, some := range files {
		err := fs.WalkDir(some, ".", func(at string, _ fs.DirEntry, err error) error {
			name, is := strings.CutSuffix(path.Base(at), ".sql")
			if err != nil || !is {
				return err
			}
			text, err := fs.ReadFile(some, at)
			names[strings.TrimSpace(string(text))] = name
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the names of queries: %w", err)
		}
	}
	return names, nil
}

func recorded(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// TraceQueryStart implements pgx.QueryTracer.
func (s statements) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !recorded(ctx) {
		return ctx
	}
	data.Args = nil
	return s.next.TraceQueryStart(ctx, conn, data)
}

// TraceQueryEnd implements pgx.QueryTracer. Where TraceQueryStart began no span, ctx has none that is recorded.
func (s statements) TraceQueryEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	if recorded(ctx) {
		data.Err = said(data.Err)
		s.next.TraceQueryEnd(ctx, conn, data)
	}
}

// TraceBatchStart implements pgx.BatchTracer.
func (s statements) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if !recorded(ctx) {
		return ctx
	}
	return s.next.TraceBatchStart(ctx, conn, data)
}

// TraceBatchQuery implements pgx.BatchTracer.
func (s statements) TraceBatchQuery(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	if recorded(ctx) {
		data.Args, data.Err = nil, said(data.Err)
		s.next.TraceBatchQuery(ctx, conn, data)
	}
}

// TraceBatchEnd implements pgx.BatchTracer.
func (s statements) TraceBatchEnd(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	if recorded(ctx) {
		data.Err = said(data.Err)
		s.next.TraceBatchEnd(ctx, conn, data)
	}
}

// TraceConnectStart implements pgx.ConnectTracer.
func (s statements) TraceConnectStart(ctx context.Context, data pgx.TraceConnectStartData) context.Context {
	if !recorded(ctx) {
		return ctx
	}
	return s.next.TraceConnectStart(ctx, data)
}

// TraceConnectEnd implements pgx.ConnectTracer.
func (s statements) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	if recorded(ctx) {
		data.Err = said(data.Err)
		s.next.TraceConnectEnd(ctx, data)
	}
}

// said is what a span may say of an error. The database quotes values in its texts, and so does the client where it cannot
// encode one. An error of the database keeps its SQLSTATE; an error that is not known to be harmless keeps its type only.
func said(err error) error {
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return &pgconn.PgError{Severity: refused.Severity, Code: refused.Code, Message: "see the log for what it says"}
	}
	for _, ended := range []error{context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF, io.EOF} {
		if errors.Is(err, ended) {
			return ended
		}
	}
	if network, ok := errors.AsType[net.Error](err); ok {
		return errors.New(tracecontext.Text(network.Error()))
	}
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return fmt.Errorf("an error of the type %T; see the log for what it says", err)
}
