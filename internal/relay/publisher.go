package relay

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// Publisher is what the relay needs of the broker.
type Publisher interface {
	// Check returns the outcome of a message that can never be sent as it is, or nil. limit is the largest
	// record to send, in bytes; 0, or more than the publisher's own limit, stands for the publisher's own limit.
	Check(m *Message, limit int) *Outcome
	// Partition says on which of n partitions a message with this key is; key is not nil.
	Partition(key []byte, n int32) int32
	// Publish hands the messages to the broker, in order, and waits for the outcomes until ctx ends.
	// It returns one outcome per message. Once a message of a topic and key was not delivered for a
	// reason that may pass, later ones of that key are withheld. A message whose outcome is still
	// unknown is remembered: publishing it again sends nothing and returns that outcome, or that it is
	// still unknown. The caller does not change what it returns: batches that simply went share it.
	Publish(ctx context.Context, ms []Message) []Outcome
	// Ping returns nil when any broker answers.
	Ping(ctx context.Context) error
	// Remember keeps the outcomes of delivered messages that could not be settled, so that
	// publishing them again from this process sends nothing.
	Remember(ms []Message)
}

// MessageID names a message: an event on its way to its own topic, or its dead letter.
type MessageID struct {
	// Source is the name of the outbox, as in Config.Source: a copy of a database has the same event ids.
	Source  string
	EventID uuid.UUID
	Episode int
	Letter  bool
}

// Message is one Kafka record to send.
type Message struct {
	ID      MessageID
	Topic   string
	Key     []byte
	Value   []byte
	Headers []message.Header
	// Partition is where it must go; nil leaves it to the key.
	Partition *int32
	// Timestamp is that of the record; zero is the time when it is sent.
	Timestamp time.Time
}

// Class says what an outcome means for the event; see DESIGN.md, faults have classes.
type Class string

const (
	// Delivered: the broker acknowledged it.
	Delivered Class = "delivered"
	// Infrastructure: broker, leader, replicas or network away, or the outcome not known in time. Holds
	// the partition, or the topic where the partition is not known, and spends no attempt.
	Infrastructure Class = "infrastructure"
	// Route: the topic is missing, recreated or refused. Holds the topic and spends no attempt.
	Route Class = "route"
	// Record: this record failed, alone, for a reason that may pass. Spends an attempt.
	Record Class = "record"
	// Permanent: this record, alone, can never be delivered as it is. Given up at once.
	Permanent Class = "permanent"
	// Withheld: not sent, because an earlier event of its key did not go or time ran out.
	Withheld Class = "withheld"
)

// Outcome is what became of a message.
type Outcome struct {
	Class Class
	// Code is a stable code, for example MESSAGE_TOO_LARGE; empty when delivered.
	Code string
	// Message says what happened, for people.
	Message string
	// Partition, of Partitions that the topic has, is where a message with a key was on its way to when it
	// failed. Partitions of 0 is not known, or not the matter.
	Partition, Partitions int32
}
