package kafka

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLogger hands the client's warnings and errors on. Its information is about its own workings.
type clientLogger struct{ log *slog.Logger }

func (clientLogger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (c clientLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := map[kgo.LogLevel]slog.Level{kgo.LogLevelError: slog.LevelError, kgo.LogLevelWarn: slog.LevelWarn}[level]
	c.log.Log(context.Background(), to, msg, keyvals...)
}
