package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestBrokersHint(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"the password or token":       kerr.SaslAuthenticationFailed,
		"kafka.sasl_mechanism to one": kerr.UnsupportedSaslMechanism,
		"kafka.tls_ca_file":           &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
		"kafka.tls_enabled":           &kgo.ErrFirstReadEOF{},
		"that the brokers run":        errors.New("connection refused"),
		"that is not Kafka":           errors.New("invalid large response size 1157627904 > limit 104857600"),
	} {
		if got := brokersHint(fmt.Errorf("ask the brokers: %w", err), "plain"); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if got := brokersHint(fmt.Errorf("ask the brokers: %w", kerr.SaslAuthenticationFailed), "aws_msk_iam"); !strings.Contains(got, "kafka-cluster:Connect") {
		t.Errorf("of aws_msk_iam: %q", got)
	}
}
