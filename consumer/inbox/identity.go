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

// maxIDBytes is the longest id and group that the table stores as it is.
const maxIDBytes = 200

// hashed begins the hash that is stored in place of an id that is too long, or no text.
const hashed = "sha256:"

// Identity tells a message from all others. It is the same for each copy of the message, and for each redrive and replay
// of it: a group that has handled the message leaves them alone. The group that gave the message up has not handled it.
type Identity struct {
	// RedriveOf is the header postrider-redrive-of: the identity under which the message was first sent, as String
	// returns it. Empty for a message that was not sent again.
	RedriveOf string
	// EventID is the header postrider-event-id. It counts only where RedriveOf is empty. Empty for none.
	EventID string
	// Topic, Partition and Offset say where the message was read first, before any retry topic. They count only where
	// both others are empty.
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is the record's at that place, in milliseconds; before 1970 for none. It tells the record from a record
	// at the same place in a deleted topic of the same name.
	Timestamp time.Time
}

// IdentityOf returns the identity of a record that was first read at this place. If a header is repeated the first one
// counts, as for consumer.Message; an empty header counts as none, and so does a header postrider-redrive-of that is no
// identity.
func IdentityOf(topic string, partition int32, offset int64, timestamp time.Time, headers []message.Header) Identity {
	id := Identity{Topic: topic, Partition: partition, Offset: offset, Timestamp: timestamp}
	id.EventID = first(headers, message.HeaderEventID)
	if of := first(headers, message.HeaderRedriveOf); of != "" {
		if _, valid := message.ValidRedriveOf(of); valid {
			id.RedriveOf = of
		}
	}
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
//	event:EVENT
//	record:TOPIC/PARTITION/OFFSET@TIMESTAMP
//	record:TOPIC/PARTITION/OFFSET  where the record has no timestamp
//
// TIMESTAMP is in milliseconds since 1970, as Kafka has it.
func (i Identity) String() string {
	switch {
	case i.RedriveOf != "":
		return i.RedriveOf
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
