// Package kgolog hands what a client of franz-go has to say to slog.
package kgolog

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// New returns a logger for kgo.WithLogger that hands a client's warnings and errors on to log. Its information is
// about its own workings, and goes nowhere.
func New(log *slog.Logger) kgo.Logger { return logger{log} }

type logger struct{ log *slog.Logger }

// Level implements kgo.Logger.
func (logger) Level() kgo.LogLevel { return kgo.LogLevelWarn }

// Log implements kgo.Logger.
func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelWarn
	if level == kgo.LogLevelError {
		to = slog.LevelError
	}
	l.log.Log(context.Background(), to, msg, keyvals...)
}
