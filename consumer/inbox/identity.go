package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/message"
)

// headerReplayID is on a message that was sent again on purpose; dlq.HeaderReplayID says more.
const headerReplayID = "replay_id"

// maxIDBytes is the longest id and group that the table stores as it is.
const maxIDBytes = 200

// hashed begins the hash that is stored in place of an id that is too long, or no text.
const hashed = "sha256:"

// Identity tells a message from all others, and is the same for each copy of the message.
type Identity struct {
	// ReplayID is the header replay_id: a redrive is new to an inbox that has handled the message before. Empty for
	// none.
	ReplayID string
	// EventID is the header postrider-event-id. Empty for none.
	EventID string
	// Topic, Partition and Offset say where the message was read first, before any retry topic. They count only where
	// both ids are empty.
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is the record's at that place, in milliseconds; before 1970 for none. It tells the record from a record
	// at the same place in a deleted topic of the same name.
	Timestamp time.Time
}

// IdentityOf returns the identity of a record that was first read at this place. If a header is repeated the first one
// counts, as for consumer.Message; an empty header counts as none.
func IdentityOf(topic string, partition int32, offset int64, timestamp time.Time, headers []message.Header) Identity {
	id := Identity{Topic: topic, Partition: partition, Offset: offset, Timestamp: timestamp}
	id.ReplayID, id.EventID = first(headers, headerReplayID), first(headers, message.HeaderEventID)
	return id
}

func first(headers []message.Header, name string) string {
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
// If there is an event id, a replay id alone is not enough: a service that copies the headers of the messages that it
// reads to the events that it writes would give all these events one replay id, and all but the first would be taken
// for copies. LENGTH is the length of the replay id in bytes, so that no two pairs look alike.
func (i Identity) String() string {
	switch {
	case i.ReplayID != "" && i.EventID != "":
		return fmt.Sprintf("replay/%d:%s/%s", len(i.ReplayID), i.ReplayID, i.EventID)
	case i.ReplayID != "":
		return "replay:" + i.ReplayID
	case i.EventID != "":
		return "event:" + i.EventID
	}
	record := fmt.Sprintf("record:%s/%d/%d", i.Topic, i.Partition, i.Offset)
	if ms := i.Timestamp.UnixMilli(); ms > 0 {
		return fmt.Sprintf("%s@%d", record, ms)
	}
	return record
}

// stored returns an id or a group as the table has it: as it is, or its SHA-256 if it is longer than 200 bytes or
// cannot be text in PostgreSQL. An id that looks like a hash is hashed too, so that it cannot pass for another id.
func stored(id string) string {
	if len(id) <= maxIDBytes && utf8.ValidString(id) && strings.IndexByte(id, 0) < 0 && !strings.HasPrefix(id, hashed) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hashed + hex.EncodeToString(sum[:])
}
