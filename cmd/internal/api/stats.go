package api

import (
	"cmp"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/internal/dlq"
)

// Stats are numbers of all investigations.
type Stats struct {
	// Total is how many there are.
	Total int64 `json:"total"`
	// ByReason counts them by the reason that lists show; beyond 200 reasons the rest is counted as other.
	ByReason map[string]int64 `json:"by_reason"`
	// Last24h is how many were opened during the last 24 hours.
	Last24h int64 `json:"last_24h"`
	// Reasons has a row for each dlq_reason that occurs.
	Reasons []ReasonStats `json:"reasons"`
	// Pending is how many are open.
	Pending int64 `json:"pending"`
	// ByErrorCode counts the open ones by error code; UNKNOWN counts the ones without a code. It is bounded as ByReason is.
	ByErrorCode map[string]int64 `json:"by_error_code"`
	// OldestPending is when the oldest open one was opened; null when none is.
	OldestPending *time.Time `json:"oldest_pending_at"`
	// Recent are the newest open ones, 5 at most.
	Recent []uuid.UUID `json:"recent"`
}

// ReasonStats are the numbers of one reason.
type ReasonStats struct {
	// Reason is why the subjects were dead-lettered.
	Reason dlq.Reason `json:"dlq_reason"`
	// Total is how many there are.
	Total int64 `json:"total_entries"`
	// Pending is how many are open.
	Pending int64 `json:"pending"`
	// ManuallyResolved is how many were closed as manually resolved.
	ManuallyResolved int64 `json:"manually_resolved"`
	// PermanentFailures is how many were closed as permanently failed.
	PermanentFailures int64 `json:"permanent_failures"`
	// Cancelled is how many were closed as cancelled.
	Cancelled int64 `json:"cancelled"`
	// Oldest is when the first of them was dead-lettered.
	Oldest *time.Time `json:"oldest_entry"`
	// Newest is when the last of them was dead-lettered.
	Newest *time.Time `json:"newest_entry"`
}

// NewStats are the numbers as they are shown.
func NewStats(s dlq.Stats) Stats {
	v := Stats{Total: s.Total, ByReason: map[string]int64{}, Last24h: s.Last24h, Pending: s.Pending, ByErrorCode: map[string]int64{},
		OldestPending: TimeOrNull(s.OldestPending), Recent: append([]uuid.UUID{}, s.Recent...)}
	maps.Copy(v.ByReason, s.ByReason)
	for code, n := range s.ByErrorCode {
		v.ByErrorCode[cmp.Or(code, dlq.UnknownCode)] += n
	}
	v.Reasons = each(func(r dlq.ReasonStats) ReasonStats {
		return ReasonStats{r.Reason, r.Total, r.Pending, r.ManuallyResolved, r.PermanentFailures, r.Cancelled, TimeOrNull(r.Oldest), TimeOrNull(r.Newest)}
	}, s.Reasons)
	return v
}
