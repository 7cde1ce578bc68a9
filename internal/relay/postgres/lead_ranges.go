package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/postrider/postrider/internal/relay"
)

// rangesText is a set of ids as the text of an int8multirange, which PostgreSQL writes with the last id left out.
func rangesText(rs relay.Ranges) string {
	b := make([]byte, 0, 2+24*len(rs))
	b = append(b, '{')
	for i, r := range rs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		b = strconv.AppendInt(b, r.First, 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, r.Last+1, 10)
		b = append(b, ')')
	}
	return string(append(b, '}'))
}

// parseRanges reads what PostgreSQL writes.
func parseRanges(text string) (relay.Ranges, error) {
	inner := strings.Trim(text, "{}")
	if inner == "" {
		return nil, nil
	}
	var rs relay.Ranges
	for _, part := range strings.SplitAfter(inner, ")") {
		part = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(part, ","), "["), ")")
		if part == "" {
			continue
		}
		low, high, _ := strings.Cut(part, ",")
		first, err := strconv.ParseInt(low, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read ranges %q: %w", text, err)
		}
		behind, err := strconv.ParseInt(high, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read ranges %q: %w", text, err)
		}
		rs = append(rs, relay.Range{First: first, Last: behind - 1})
	}
	return rs, nil
}

// parseSnapshot reads a pg_snapshot: xmin:xmax:running.
func parseSnapshot(text string) (s relay.Snapshot, err error) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 {
		return s, fmt.Errorf("read the snapshot %q", text)
	}
	if s.Max, err = strconv.ParseUint(parts[1], 10, 64); err != nil || parts[2] == "" {
		return s, err
	}
	for _, x := range strings.Split(parts[2], ",") {
		xid, err := strconv.ParseUint(x, 10, 64)
		if err != nil {
			return s, fmt.Errorf("read the snapshot %q: %w", text, err)
		}
		s.Running = append(s.Running, xid)
	}
	return s, nil
}

// fullXID is a transaction id of 32 bits as it counts on: the one nearest to max that has these bits.
func fullXID(xid uint32, max uint64) uint64 {
	full := max&^0xffffffff | uint64(xid)
	switch {
	case full > max+1<<31 && full >= 1<<32:
		return full - 1<<32
	case full+1<<31 < max:
		return full + 1<<32
	}
	return full
}
