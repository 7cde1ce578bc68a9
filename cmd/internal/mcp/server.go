package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/relay"
)

// API is where tools read from, and what checks keys.
type API interface {
	// Call runs an operation for the actor of ctx; tools ask it for what changes nothing.
	Call(ctx context.Context, method, path string, query url.Values, body any) (any, error)
	// Guard lets only holders of keys through, and puts the actor into the context.
	Guard(next http.Handler) http.Handler
}

// Access knows keys and keeps the audit log.
type Access interface {
	Authenticate(ctx context.Context, token string) (access.Key, error)
	// Look writes a row of the audit log.
	Look(ctx context.Context, action, targetType, targetID string, sources access.Sources, details any) error
}

// Actions are the four actions of the outbox, and its numbers for previews.
type Actions interface {
	ProcessPending(ctx context.Context, o relay.ActionOptions) (relay.ActionResult, error)
	ProcessRetries(ctx context.Context, o relay.ActionOptions) (relay.ActionResult, error)
	Cleanup(ctx context.Context, o relay.CleanupOptions) (relay.CleanupResult, error)
	DLQStats(ctx context.Context) (dlq.Summary, error)
	Status(ctx context.Context) (relay.Status, error)
}

// Config is what a Server is made of.
type Config struct {
	// API, Access and Actions do the work. Required.
	API     API
	Access  Access
	Actions Actions
	// Token is the API key of the client at the other end of standard input; it is looked up anew at each call, so
	// that a revoked key ends at once. Over HTTP each request brings its own. Defaults to none.
	Token string
	// AllowWrites lets keys with the scopes for it change something. Defaults to false.
	AllowWrites bool
	// ConfirmTTL is how long a preview may be confirmed. Defaults to 2 minutes.
	ConfirmTTL time.Duration
	// Timeout bounds each call of a tool that reads. Defaults to 25s.
	Timeout time.Duration
	// ActionTimeout bounds each call of outbox_sync: its look and what it does. Many clients wait for a minute. Defaults to
	// 50s, and to Timeout if that is longer.
	ActionTimeout time.Duration
	// MaxBody is the largest message of a client, in bytes. Defaults to 1 MiB.
	MaxBody int64
	// AllowedOrigins are web pages that may call over HTTP, as browsers send them. Defaults to none.
	AllowedOrigins []string
	// Calls limits how often each key may call; a change counts 25 times. Defaults to no limit.
	Calls *access.Limiter
	// Version is that of the program, for clients. Defaults to "unknown".
	Version string
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Registerer receives the metrics postrider_mcp_*. Defaults to none.
	Registerer prometheus.Registerer
}

// Server serves tools.
type Server struct {
	cfg      Config
	sdk      *sdk.Server
	previews *previews
	log      *slog.Logger
	metrics  *metrics
}

// DefaultActionTimeout is the default of Config.ActionTimeout.
const DefaultActionTimeout = 50 * time.Second

const instructions = `Postrider carries events from a PostgreSQL outbox to Kafka; what could not be delivered is a dead letter with an investigation.
To triage: dlq_stats for the size of it, dlq_groups for causes, dlq_why for one cause, dlq_show for one investigation.
` + fenceRule + `
outbox_sync changes something only when it is called a second time with the confirm of its preview. Show the preview to the person you work for before you confirm it.`

// New checks the configuration.
func New(cfg Config) (*Server, error) {
	if cfg.API == nil || cfg.Access == nil || cfg.Actions == nil {
		return nil, errors.New("mcp: API, Access and Actions are required")
	}
	if cfg.ConfirmTTL == 0 {
		cfg.ConfirmTTL = 2 * time.Minute
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 25 * time.Second
	}
	if cfg.ActionTimeout == 0 {
		cfg.ActionTimeout = max(DefaultActionTimeout, cfg.Timeout)
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 1 << 20
	}
	if cfg.Calls == nil {
		cfg.Calls = access.NewLimiter(0, 0)
	}
	if cfg.Version == "" {
		cfg.Version = "unknown"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("mcp: register metrics: %w", err)
	}
	s := &Server{cfg: cfg, previews: newPreviews(cfg.ConfirmTTL, time.Now), log: cfg.Logger.With("component", "mcp"), metrics: m}
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "postrider", Title: "Postrider", Version: cfg.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		// What clients may be told in log messages they are told in answers.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	s.sdk.AddReceivingMiddleware(leaveOutNulls)
	s.addReading()
	s.addSync()
	return s, nil
}

// leaveOutNulls takes an argument of a tool that is null for one that is not given. Many clients name every argument of a
// tool, and write null for each one left out; the schemas of arguments know no null.
func leaveOutNulls(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		var arguments map[string]json.RawMessage
		call, is := req.(*sdk.CallToolRequest)
		if is && call.Params != nil && json.Unmarshal(call.Params.Arguments, &arguments) == nil {
			named := len(arguments)
			maps.DeleteFunc(arguments, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
			if len(arguments) < named {
				rest, err := json.Marshal(arguments)
				if err != nil {
					return nil, err
				}
				call.Params.Arguments = rest
			}
		}
		return next(ctx, method, req)
	}
}

// call adds what every call of a tool has in common: the actor, the time limit, the metrics, the line in the log, and the
// text of an error.
func call[In any](s *Server, tool string, within time.Duration, hint func(In) string, do func(context.Context, In) (*sdk.CallToolResult, any, error)) sdk.ToolHandlerFor[In, any] {
	s.metrics.know(tool)
	return func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		actor, err := s.actor(ctx)
		var result *sdk.CallToolResult
		var out any
		if err == nil {
			result, out, err = do(access.Limited(ctx, actor), in)
		}
		s.log.Info("tool call", "tool", tool, "actor", actor.Name, "key_id", actor.KeyID, "request_id", actor.RequestID,
			"duration_ms", float64(time.Since(began).Microseconds())/1000, "failed", err != nil)
		var told error
		if err != nil {
			told = s.tell(err, actor.RequestID, within, hint(in))
		}
		s.metrics.called(tool, time.Since(began), told, result)
		if told != nil {
			return nil, nil, told
		}
		return result, out, nil
	}
}

// actor is whose key came with the request, or is that of standard input.
func (s *Server) actor(ctx context.Context) (access.Actor, error) {
	if a := access.ActorOf(ctx); a.Name != "" {
		return a, nil
	}
	id := rand.Text()
	if s.cfg.Token == "" {
		return access.Actor{RequestID: id}, refuse(httpapi.Unauthenticated, "an API key is needed")
	}
	k, err := s.cfg.Access.Authenticate(ctx, s.cfg.Token)
	if errors.Is(err, access.ErrUnknownKey) {
		return access.Actor{RequestID: id}, refuse(httpapi.Unauthenticated, "%s", access.ErrUnknownKey)
	}
	return access.Actor{Name: k.Name, KeyID: k.ID, RequestID: id, Scopes: k.Scopes, Sources: k.Sources}, err
}

// tell turns an error into the text for the client, and logs the rest. within and hint are for a call that took too long.
func (s *Server) tell(err error, id string, within time.Duration, hint string) error {
	var told *httpapi.Error
	switch {
	case errors.As(err, &told):
	case errors.Is(err, relay.ErrNoBrokers):
		told = refuse(httpapi.Unavailable, "%s", relay.ErrNoBrokers)
	case errors.Is(err, context.DeadlineExceeded):
		told = refuse(httpapi.Unavailable, "this took longer than %v; %s", within, hint)
	default:
		told = httpapi.Describe(err)
	}
	if told == nil {
		told = refuse(httpapi.Internal, "something failed that is not the call's fault; the log has it under request id %s", id)
	}
	if told.Code == httpapi.Internal || told.Code == httpapi.Unavailable {
		s.log.Error("a tool failed", "request_id", id, "err", err)
	}
	return &httpapi.Error{Code: told.Code, Message: visible(told.Message), Details: told.Details}
}
