package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
)

// Codes of outcomes that are not the broker's own.
const (
	// CodeUnknownOutcome: no acknowledgement in time. The record may or may not be in the topic.
	CodeUnknownOutcome = "UNKNOWN_OUTCOME"
	// CodeUnreachable: the client failed before a broker answered.
	CodeUnreachable = "BROKER_UNREACHABLE"
	// CodeClientClosed: the relay is stopping.
	CodeClientClosed = "CLIENT_CLOSED"
	// CodePartitionsChanged: partitions were added to the topic, and the client did not know of them.
	CodePartitionsChanged = "PARTITIONS_CHANGED"
)

// errLookup is the error of records whose topic the client could not look up in time.
var errLookup = errors.New("no broker says where the partitions of the topic are")

// classify is the one place that decides what an error of the Kafka client means.
//
//   - Route, because the topic or our right to it is the matter and every record would fail alike:
//     UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID and INCONSISTENT_TOPIC_ID (deleted or recreated),
//     the authorisation and authentication errors, a compression or message format that the broker
//     refuses.
//   - Permanent, when it fails alone: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_RECORD, and
//     INVALID_TOPIC_EXCEPTION, because no client can create the topic: it is the broker's own, or its
//     name is not allowed.
//   - Record, tried again when it fails alone: INVALID_TIMESTAMP (clocks), CORRUPT_MESSAGE (the
//     network), POLICY_VIOLATION (policies change), UNKNOWN_SERVER_ERROR (no evidence either way).
//   - Infrastructure: everything else, also an error that is unknown here. It never gives an event up.
//
// Permanent and Record are suspicions until the record failed alone: the client fails all records of a
// partition together with the bad one.
func classify(err error) (relay.Class, string) {
	if err == nil {
		return relay.Delivered, ""
	}
	var ke *kerr.Error
	if !errors.As(err, &ke) {
		switch {
		case errors.Is(err, kgo.ErrClientClosed):
			return relay.Infrastructure, CodeClientClosed
		case errors.Is(err, errPartitionsChanged):
			return relay.Infrastructure, CodePartitionsChanged
		}
		return relay.Infrastructure, CodeUnreachable
	}
	switch ke {
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InconsistentTopicID,
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed,
		kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.SecurityDisabled,
		kerr.UnsupportedCompressionType, kerr.UnsupportedForMessageFormat, kerr.UnsupportedVersion:
		return relay.Route, ke.Message
	case kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTopicException:
		return relay.Permanent, ke.Message
	case kerr.InvalidTimestamp, kerr.CorruptMessage, kerr.PolicyViolation, kerr.UnknownServerError:
		return relay.Record, ke.Message
	}
	return relay.Infrastructure, ke.Message
}

func suspect(c relay.Class) bool { return c == relay.Permanent || c == relay.Record }
