package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/relay/outbox"
)

// headerReplayID is on a message that was sent again on purpose; dlq.HeaderReplayID says more.
const headerReplayID = "replay_id"

// maxIDBytes is the longest id and group that the table stores as it is.
const maxIDBytes = 200

// hashed begins what is stored in place of an id that is too long, or no text.
const hashed = "sha256:"

// Identity is what tells a message from others and is the same for each of its copies.
type Identity struct {
	// ReplayID is the header replay_id: a redrive is new to an inbox that has handled the message before. Empty for
	// none.
	ReplayID string
	// EventID is the header postrider-event-id. Empty for none.
	EventID string
	// Topic, Partition and Offset say where the message was read first, before any retry topic. They count only where
	// there is no header.
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is the record's at that place, in milliseconds; before 1970 for none. It tells the record from the one
	// that had its place in a topic of that name that was deleted.
	Timestamp time.Time
}

// IdentityOf returns the identity of a record with this timestamp and these headers that was first read there. Of a
// repeated header the first one counts, as for consumer.Message; where that is empty there is none.
func IdentityOf(topic string, partition int32, offset int64, timestamp time.Time, headers []outbox.Header) Identity {
	id := Identity{Topic: topic, Partition: partition, Offset: offset, Timestamp: timestamp}
	id.ReplayID, id.EventID = first(headers, headerReplayID), first(headers, outbox.HeaderEventID)
	return id
}

func first(headers []outbox.Header, name string) string {
	for i := range headers {
		if headers[i].Name == name {
			return string(headers[i].Value)
		}
	}
	return ""
}

// String returns the identity as message_id has it, different for different identities:
//
//	replay/LENGTH:REPLAY/EVENT  where both are there
//	replay:REPLAY
//	event:EVENT
//	record:TOPIC/PARTITION/OFFSET@TIMESTAMP
//	record:TOPIC/PARTITION/OFFSET  where the record has no timestamp
//
// TIMESTAMP is in milliseconds since 1970, as Kafka has it.
//
// A replay id alone does not do where there is an event id: a service that copies the headers of what it reads onto
// what it writes would give its own events the same one, and all but the first would be taken for copies. LENGTH is
// that of the replay id in bytes, so that no two pairs look alike.
func (i Identity) String() string {
	switch {
	case i.ReplayID != "" && i.EventID != "":
		return fmt.Sprintf("replay/%d:%s/%s", len(i.ReplayID), i.ReplayID, i.EventID)
	case i.ReplayID != "":
		return "replay:" + i.ReplayID
	case i.EventID != "":
		return "event:" + i.EventID
	}
	place := fmt.Sprintf("record:%s/%d/%d", i.Topic, i.Partition, i.Offset)
	if ms := i.Timestamp.UnixMilli(); ms > 0 {
		return fmt.Sprintf("%s@%d", place, ms)
	}
	return place
}

// stored is how the table has an id or a group: as it is, or its SHA-256 where it is longer than 200 bytes or cannot be
// text in PostgreSQL. What looks like such a hash is hashed too, so that nobody can pass an id off as another.
func stored(id string) string {
	if len(id) <= maxIDBytes && utf8.ValidString(id) && strings.IndexByte(id, 0) < 0 && !strings.HasPrefix(id, hashed) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hashed + hex.EncodeToString(sum[:])
}
