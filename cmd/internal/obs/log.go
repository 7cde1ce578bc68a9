// Package obs makes what a process is observed with: its logger, its metrics registry, and what
// it knows about its own build.
package obs

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes lines of the level (debug, info, warn, error) and above
// to w, in the format json, text or words, which is for people. Errors are put into one line, and warnings and errors that repeat are
// thinned; see repeats.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var options slog.HandlerOptions
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q is not one of debug, info, warn, error", level)
	}
	options.Level = least
	options.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() != slog.KindAny {
			return a
		}
		if err, isError := a.Value.Any().(error); isError {
			a.Value = slog.StringValue(OneLine(err.Error()))
		}
		return a
	}
	switch format {
	case "json":
		return slog.New(newRepeats(slog.NewJSONHandler(w, &options))), nil
	case "text":
		return slog.New(newRepeats(slog.NewTextHandler(w, &options))), nil
	case "words":
		return slog.New(newRepeats(newWords(w, options))), nil
	}
	return nil, fmt.Errorf("log format %q is not one of json, text, words", format)
}
