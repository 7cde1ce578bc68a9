package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/message"
)

// classes are the codes that mean something else than Infrastructure.
var classes = map[*kerr.Error]relay.Class{
	kerr.UnknownTopicOrPartition:            relay.Route,
	kerr.UnknownTopicID:                     relay.Route,
	kerr.InconsistentTopicID:                relay.Route,
	kerr.TopicAuthorizationFailed:           relay.Route,
	kerr.ClusterAuthorizationFailed:         relay.Route,
	kerr.TransactionalIDAuthorizationFailed: relay.Route,
	kerr.SaslAuthenticationFailed:           relay.Route,
	kerr.UnsupportedSaslMechanism:           relay.Route,
	kerr.IllegalSaslState:                   relay.Route,
	kerr.SecurityDisabled:                   relay.Route,
	kerr.UnsupportedCompressionType:         relay.Route,
	kerr.UnsupportedForMessageFormat:        relay.Route,
	kerr.UnsupportedVersion:                 relay.Route,

	kerr.MessageTooLarge:       relay.Permanent,
	kerr.RecordListTooLarge:    relay.Permanent,
	kerr.InvalidRecord:         relay.Permanent,
	kerr.InvalidTopicException: relay.Permanent,

	kerr.InvalidTimestamp:   relay.Record,
	kerr.CorruptMessage:     relay.Record,
	kerr.PolicyViolation:    relay.Record,
	kerr.UnknownServerError: relay.Record,
}

// brokerErrors are all errors that the client library knows a broker to send.
func brokerErrors() []*kerr.Error {
	var all []*kerr.Error
	for code := int16(-1); code < 1000; code++ {
		if err := kerr.TypedErrorForCode(code); err != nil && err.Code == code {
			all = append(all, err)
		}
	}
	return all
}

// TestClassifyEveryCode: an error that is not in the table must be Infrastructure, because that class
// never gives an event up. A code that a new version of the client brings has to be looked at.
func TestClassifyEveryCode(t *testing.T) {
	t.Parallel()
	all := brokerErrors()
	if newest := all[len(all)-1]; len(all) != 137 || newest != kerr.ControllerIDNotRegistered {
		t.Errorf("the client knows %d codes up to %v: decide what the new ones mean", len(all), newest)
	}
	known := 0
	for _, ke := range all {
		want, ok := classes[ke]
		if ok {
			known++
		} else {
			want = relay.Infrastructure
		}
		for _, err := range []error{ke, fmt.Errorf("%w (uncompressed_bytes=7)", ke), errors.Join(io.EOF, ke)} {
			if class, code := classify(err); class != want || code != ke.Message {
				t.Errorf("%v is %s %s, want %s %s", err, class, code, want, ke.Message)
			}
		}
		if suspect(want) != (want == relay.Permanent || want == relay.Record) {
			t.Errorf("%s: only a record's own faults make it a suspect", ke.Message)
		}
	}
	if known != len(classes) {
		t.Errorf("%d of the table's %d codes are known to the client", known, len(classes))
	}
}

func TestClassifyClientErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err   error
		class relay.Class
		code  string
	}{
		{nil, relay.Delivered, ""},
		{kgo.ErrClientClosed, relay.Infrastructure, CodeClientClosed},
		{fmt.Errorf("kafka: %w", kgo.ErrClientClosed), relay.Infrastructure, CodeClientClosed},
		{fmt.Errorf("topic t: %w", errPartitionsChanged), relay.Infrastructure, CodePartitionsChanged},
		{kgo.ErrMaxBuffered, relay.Infrastructure, CodeUnreachable},
		{kgo.ErrRecordTimeout, relay.Infrastructure, CodeUnreachable},
		{kgo.ErrRecordRetries, relay.Infrastructure, CodeUnreachable},
		{kgo.ErrAborting, relay.Infrastructure, CodeUnreachable},
		{context.Canceled, relay.Infrastructure, CodeUnreachable},
		{context.DeadlineExceeded, relay.Infrastructure, CodeUnreachable},
		{io.ErrUnexpectedEOF, relay.Infrastructure, CodeUnreachable},
		{errors.New("something new"), relay.Infrastructure, CodeUnreachable},
	} {
		if class, code := classify(c.err); class != c.class || code != c.code {
			t.Errorf("%v is %s %q, want %s %q", c.err, class, code, c.class, c.code)
		}
	}
}

// TestBrokerErrorsHaveACategory: what the broker says against a record for good is about the record, and
// everything else may pass.
func TestBrokerErrorsHaveACategory(t *testing.T) {
	t.Parallel()
	for _, err := range brokerErrors() {
		class, code := classify(err)
		want := message.Transient
		if class == relay.Permanent {
			want = message.Validation
		}
		if got := message.CategoryOf(string(class), code); got != want {
			t.Errorf("%s, class %s: category %q, want %q", code, class, got, want)
		}
	}
}
