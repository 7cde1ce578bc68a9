package dialect

import (
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/message"
)

// HeaderReplayOrigin is on messages that the desk or a replay sent again, if their letter says where which group read
// them. Its value is a FailedRecord. Without it, a group that fails again at a message of its retry topic would say that
// the message came from there. It is not reserved, because rows of the outbox have it.
const HeaderReplayOrigin = "replay_origin"

// FailedRecord names a record at which a consumer group failed.
type FailedRecord struct {
	// Topic, Partition and Offset are where the record was first read.
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is the record's, in milliseconds. It tells the record from another one at the same place of a deleted topic
	// of that name. Zero for none.
	Timestamp time.Time
	// Group is the consumer group. Empty where that is not known.
	Group string
}

// String returns "<topic>/<partition>/<offset>@<timestamp in Unix milliseconds>#<group>". An unknown part is left out
// with the character before it.
func (r FailedRecord) String() string {
	s := r.Topic + "/" + strconv.Itoa(int(r.Partition)) + "/" + strconv.FormatInt(r.Offset, 10)
	if !r.Timestamp.IsZero() {
		s += "@" + strconv.FormatInt(r.Timestamp.UnixMilli(), 10)
	}
	if r.Group != "" {
		s += "#" + r.Group
	}
	return s
}

// ParseFailedRecord reads what String writes; not ok where it is anything else. A topic has none of the characters that
// separate the parts, and a group, which is the last, may have them all.
func ParseFailedRecord(s string) (r FailedRecord, ok bool) {
	place, group, grouped := strings.Cut(s, "#")
	place, ms, timed := strings.Cut(place, "@")
	parts := strings.Split(place, "/")
	if len(parts) != 3 || message.ValidTopic(parts[0]) != nil || grouped && group == "" {
		return FailedRecord{}, false
	}
	partition, perr := strconv.ParseInt(parts[1], 10, 32)
	offset, oerr := strconv.ParseInt(parts[2], 10, 64)
	if perr != nil || oerr != nil || partition < 0 || offset < 0 {
		return FailedRecord{}, false
	}
	r = FailedRecord{Topic: parts[0], Partition: int32(partition), Offset: offset, Group: group}
	if timed {
		at, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return FailedRecord{}, false
		}
		r.Timestamp = time.UnixMilli(at)
	}
	return r, true
}
