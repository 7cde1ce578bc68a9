package kafkaauth

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"

	"github.com/postrider/postrider/cmd/internal/config"
)

// mskIAM is the login of Amazon MSK by IAM: a request to connect to that broker, signed for the next minutes with the
// keys of AWS that count then (Signature Version 4). franz-go makes and signs it; findKeys knows where keys are.
func mskIAM(c config.Kafka) (sasl.Mechanism, error) {
	source, err := findKeys(c)
	if err != nil {
		return nil, err
	}
	if err := regionIsKnown(c.Brokers); err != nil {
		return nil, err
	}
	return aws.ManagedStreamingIAM(func(ctx context.Context) (aws.Auth, error) {
		keys, err := source(ctx)
		if err != nil {
			return aws.Auth{}, err
		}
		return aws.Auth{AccessKey: keys.AccessKeyID, SecretKey: keys.SecretAccessKey, SessionToken: keys.SessionToken, UserAgent: c.ClientID}, nil
	}), nil
}

// hostsOfAWS end the names of brokers that contain the region; they are the endings that franz-go knows.
var hostsOfAWS = []string{".amazonaws.com", ".amazonaws.com.cn", ".c2s.ic.gov", ".sc2s.sgov.gov"}

// regionIsKnown finds out before anything is connected what the mechanism would say at each connection: the region is a
// part of the signed text, and comes from the broker's name or the environment.
func regionIsKnown(brokers []string) error {
	if os.Getenv("AWS_REGION") != "" || os.Getenv("AWS_DEFAULT_REGION") != "" {
		return nil
	}
	for _, broker := range brokers {
		host, _, err := net.SplitHostPort(broker)
		if err != nil {
			return fmt.Errorf("kafka.brokers: %w", err)
		}
		known := false
		for _, end := range hostsOfAWS {
			known = known || strings.HasSuffix(host, end)
		}
		if !known {
			return fmt.Errorf("kafka.sasl_mechanism is aws_msk_iam, and the broker's name %s does not say the region, as b-1.mine.abc123.c2.kafka.eu-west-1.amazonaws.com does: set the environment variable AWS_REGION", host)
		}
	}
	return nil
}
