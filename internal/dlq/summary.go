package dlq

import "time"

// UnknownCode is what a Summary counts investigations as that have no error code.
const UnknownCode = "UNKNOWN"

// Summary is the open investigations in four figures: the answer of the action dlqStats.
type Summary struct {
	// Size is how many are open.
	Size int64 `json:"size"`
	// OldestAgeMS is how long the oldest of them has been open, in milliseconds; 0 when there is none.
	OldestAgeMS int64 `json:"oldestAgeMs"`
	// ByErrorCode counts them by error code: at most MaxWords codes, and OtherWord for the rest; never nil.
	ByErrorCode map[string]int64 `json:"byErrorCode"`
	// RecentSampleIDs are the newest of them, at most RecentSamples; never nil.
	RecentSampleIDs []string `json:"recentSampleIds"`
}

// Summary is what the figures say at the given time.
func (s Stats) Summary(now time.Time) Summary {
	sum := Summary{Size: s.Pending, ByErrorCode: map[string]int64{}, RecentSampleIDs: []string{}}
	if !s.OldestPending.IsZero() {
		sum.OldestAgeMS = max(now.Sub(s.OldestPending).Milliseconds(), 0) // the clocks may differ
	}
	for code, n := range s.ByErrorCode {
		if code == "" {
			code = UnknownCode
		}
		sum.ByErrorCode[code] += n
	}
	for _, id := range s.Recent {
		sum.RecentSampleIDs = append(sum.RecentSampleIDs, id.String())
	}
	return sum
}
