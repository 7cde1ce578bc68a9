// Package kgolog hands what a client of franz-go has to say to slog, and to people.
package kgolog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
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
	said := slices.Clone(keyvals) // the client may use its own again
	for i, value := range said {
		switch value := value.(type) {
		case time.Duration: // JSON would have nanoseconds
			said[i] = value.String()
		case error:
			if kerr.IsRetriable(value) { // the client asks again by itself
				to = slog.LevelWarn
			}
		}
	}
	l.log.Log(context.Background(), to, msg, said...)
}

// InShort is an error of a client for people: the words of the brokers, or that there was no answer. The addresses of brokers,
// which errors of the client have, are for the log.
func InShort(err error) string {
	var said *kerr.Error
	switch {
	case errors.As(err, &said):
		return said.Message
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "no answer"
}
