// Package obs makes what a process is observed with: its logger, its metrics registry, and what
// it knows about its own build.
package obs

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes lines of the level (debug, info, warn, error) and above
// to w, in the format json or text.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var options slog.HandlerOptions
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q is not one of debug, info, warn, error", level)
	}
	options.Level = least
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, &options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(w, &options)), nil
	}
	return nil, fmt.Errorf("log format %q is not one of json, text", format)
}
