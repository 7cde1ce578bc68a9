package obs

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// words is a handler that writes lines for a person who waits for a command:
//
//	12:03:07 warning: the broker does not answer: broker localhost:9092, err connection refused
//
// Information has no level, and attributes are names and values.
type words struct {
	out     *sync.Mutex
	w       io.Writer
	options slog.HandlerOptions
	prefix  string // of names, from groups
	attrs   string // of this logger, as they are written
}

func newWords(w io.Writer, options slog.HandlerOptions) *words {
	return &words{out: &sync.Mutex{}, w: w, options: options}
}

func (h *words) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.options.Level.Level()
}

func (h *words) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	if !r.Time.IsZero() {
		line.WriteString(r.Time.Format("15:04:05 "))
	}
	switch {
	case r.Level >= slog.LevelError:
		line.WriteString("error: ")
	case r.Level >= slog.LevelWarn:
		line.WriteString("warning: ")
	}
	line.WriteString(plain(r.Message))
	attrs := h.attrs
	r.Attrs(func(a slog.Attr) bool {
		attrs += h.text(h.prefix, a)
		return true
	})
	if attrs != "" {
		line.WriteString(": " + strings.TrimPrefix(attrs, ", "))
	}
	line.WriteByte('\n')
	h.out.Lock()
	defer h.out.Unlock()
	_, err := io.WriteString(h.w, line.String())
	return err
}

// text is ", name value", for a group one after the other, and empty for nothing.
func (h *words) text(prefix string, a slog.Attr) string {
	if a.Value = a.Value.Resolve(); a.Value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		text := ""
		for _, member := range a.Value.Group() {
			text += h.text(prefix, member)
		}
		return text
	}
	if h.options.ReplaceAttr != nil {
		a = h.options.ReplaceAttr(nil, a)
	}
	if a.Equal(slog.Attr{}) {
		return ""
	}
	return ", " + plain(prefix+a.Key) + " " + plain(a.Value.String())
}

func (h *words) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	for _, a := range attrs {
		with.attrs += h.text(h.prefix, a)
	}
	return &with
}

func (h *words) WithGroup(name string) slog.Handler {
	with := *h
	if name != "" {
		with.prefix += name + "."
	}
	return &with
}

// plain is a text that neither moves the cursor nor ends the line: in quotes where it could, and where it is empty.
func plain(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
