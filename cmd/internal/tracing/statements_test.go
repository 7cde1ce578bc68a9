package tracing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// sentinel is in every value, key and password here, and must be in no span.
const sentinel = "s3ntinel"

// recording is a provider that keeps every span.
func recording(t *testing.T, options ...sdktrace.TracerProviderOption) (*sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	p := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(spans))...)
	t.Cleanup(func() { _ = p.Shutdown(t.Context()) })
	return p, spans
}

// allOf is all that is exported of a span.
func allOf(s sdktrace.ReadOnlySpan) string {
	all := fmt.Sprintf("%s %+v", s.Name(), s.Status())
	for _, a := range s.Attributes() {
		all += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
	}
	for _, e := range s.Events() {
		all += " " + e.Name
		for _, a := range e.Attributes {
			all += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
		}
	}
	return all
}

const counting = "-- Counts.\nselect count(*) from pg_class where relname = $1\n"

// database connects with spans of statements.
func database(t *testing.T, p trace.TracerProvider) *pgx.ConnConfig {
	t.Helper()
	tracer, err := Statements(p, fstest.MapFS{"queries/count_tables.sql": {Data: []byte(counting)}, "queries/other.txt": {Data: []byte("select 1")}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := pgx.ParseConfig(pgtest.NewEmpty(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Tracer = tracer
	return cfg
}

func connect(t *testing.T, cfg *pgx.ConnConfig) *pgx.Conn {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Statements have spans under a span that is recorded, and none otherwise. They have the names of their files, or their
// first word, and nothing of their values or texts, whatever fails.
func TestStatements(t *testing.T) {
	t.Parallel()
	p, spans := recording(t)
	cfg := database(t, p)
	conn := connect(t, cfg)
	var n int
	if err := conn.QueryRow(t.Context(), counting, sentinel).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if len(spans.Started()) != 0 {
		t.Fatalf("the span %s was not asked for", spans.Started()[0].Name())
	}
	ctx, above := p.Tracer("test").Start(t.Context(), "above")
	if err := conn.QueryRow(ctx, counting, sentinel).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "/* of nobody */ select $1::text", sentinel); err != nil {
		t.Fatal(err)
	}
	batch := &pgx.Batch{}
	batch.Queue(strings.TrimSpace(counting), sentinel)
	batch.Queue("set application_name = '" + sentinel + "'")
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		t.Fatal(err)
	}
	// The server quotes the value, then the client does, and then the server in a batch.
	if _, err := conn.Exec(ctx, "select $1::text::int", sentinel); err == nil || !strings.Contains(err.Error(), sentinel) {
		t.Fatalf("the error is %v", err)
	}
	if _, err := conn.Exec(ctx, "select $1::int", struct{ Name string }{sentinel}); err == nil || !strings.Contains(err.Error(), sentinel) {
		t.Fatalf("the error is %v", err)
	}
	batch = &pgx.Batch{}
	batch.Queue("select $1::text::int", sentinel)
	if err := conn.SendBatch(ctx, batch).Close(); err == nil || !strings.Contains(err.Error(), sentinel) {
		t.Fatalf("the error is %v", err)
	}
	second, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(ctx); err != nil {
		t.Error(err)
	}
	away := cfg.Copy()
	away.Host, away.Port, away.Password, away.Fallbacks = "127.0.0.1", 1, sentinel, nil
	if _, err := pgx.ConnectConfig(ctx, away); err == nil {
		t.Fatal("a server is on port 1")
	}
	if !above.IsRecording() {
		t.Error("the span above was ended")
	}
	var names []string
	failed := map[string]int{}
	for _, s := range spans.Ended() {
		all := allOf(s)
		if strings.Contains(all, sentinel) || strings.Contains(strings.ToLower(all), "pg_class") {
			t.Errorf("too much is said: %s", all)
		}
		if !s.Parent().IsValid() || s.SpanContext().TraceID() != above.SpanContext().TraceID() {
			t.Errorf("%s is in no trace of anybody", s.Name())
		}
		name := s.Name()
		if s.Status().Code == codes.Error {
			name += " failed"
			for _, why := range []string{"22P02", "connection refused"} {
				if strings.Contains(all, why) {
					failed[why]++
				}
			}
		}
		names = append(names, name)
	}
	want := []string{"count_tables", "SELECT", "count_tables", "SET", "batch start", "SELECT failed", "SELECT failed", "SELECT failed", "batch start failed", "connect", "connect failed"}
	if !slices.Equal(names, want) {
		t.Errorf("spans\n%q\nwant\n%q", names, want)
	}
	if failed["22P02"] < 3 || failed["connection refused"] != 1 {
		t.Errorf("what failed is said as %v", failed)
	}
}

// A statement without a file has the name of the function that it calls.
func TestCalledFunction(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"select postrider.dlq_amend($1, $2)":                                 "dlq_amend",
		"select r.id from\npostrider.dlq_redrive_letters($1) r":              "dlq_redrive_letters",
		"select count(*) from postrider.dlq_entry where dlq_entry_uuid = $1": "",
		"select mypostrider.f(1)":                                            "",
	} {
		got := ""
		if called := calledFunction.FindStringSubmatch(text); called != nil {
			got = called[1]
		}
		if got != want {
			t.Errorf("%s calls %q, want %q", text, got, want)
		}
	}
}

// A trace that is not sampled costs no span.
func TestStatementsNotSampled(t *testing.T) {
	t.Parallel()
	p, spans := recording(t, sdktrace.WithSampler(sdktrace.NeverSample()))
	conn := connect(t, database(t, p))
	ctx, above := p.Tracer("test").Start(t.Context(), "above")
	defer above.End()
	if _, err := conn.Exec(ctx, "select 1"); err != nil {
		t.Fatal(err)
	}
	batch := &pgx.Batch{}
	batch.Queue("select 1")
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		t.Fatal(err)
	}
	if len(spans.Started()) != 0 {
		t.Errorf("the span %s began", spans.Started()[0].Name())
	}
}
