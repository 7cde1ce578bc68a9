package postgres

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// cursor names the place behind an investigation in the order of a search.
func cursor(s dlq.Search, f found) string {
	text := fmt.Sprintf("%s %t %d %s", s.OrderBy, s.Ascending, f.At.UnixMicro(), f.ID)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// parseCursor reads a cursor of the order of a search.
func parseCursor(s dlq.Search) (f found, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(s.After)
	if err != nil {
		return f, fmt.Errorf("%w: after is not what an answer named as next", dlq.ErrRequest)
	}
	parts := strings.Split(string(raw), " ")
	if len(parts) != 4 {
		return f, fmt.Errorf("%w: after is not what an answer named as next", dlq.ErrRequest)
	}
	if parts[0] != string(s.OrderBy) || parts[1] != strconv.FormatBool(s.Ascending) {
		return f, fmt.Errorf("%w: after is of a list in another order; give the order that it was of", dlq.ErrRequest)
	}
	micros, err := strconv.ParseInt(parts[2], 10, 64)
	id, err2 := uuid.Parse(parts[3])
	if f = (found{id, time.UnixMicro(micros).UTC()}); err != nil || err2 != nil || !inYears(f.At) {
		return f, fmt.Errorf("%w: after is not what an answer named as next", dlq.ErrRequest)
	}
	return f, nil
}

// inYears reports whether a time has a year that PostgreSQL and JSON can both hold.
func inYears(t time.Time) bool { return t.Year() >= 1 && t.Year() <= 9999 }
