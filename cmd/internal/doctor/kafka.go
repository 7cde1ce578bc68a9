package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/kafkaauth"
	"github.com/postrider/postrider/cmd/internal/plural"
)

// dialTimeout bounds a connection, with its TLS handshake.
const dialTimeout = 3 * time.Second

// OpenKafka returns a client that gives up soon: doctor wants to know, and does not wait for better times.
func OpenKafka(c config.Kafka) (*kgo.Client, error) {
	auth, err := kafkaauth.Options(c, dialTimeout)
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(append(auth, kgo.SeedBrokers(c.Brokers...), kgo.ClientID(c.ClientID+"-doctor"), kgo.DialTimeout(dialTimeout),
		kgo.RetryTimeout(8*time.Second), kgo.RequestRetries(20), kgo.MetadataMinAge(10*time.Millisecond))...)
}

// brokersHint says what to look at when no broker answers a client that logs in by this mechanism.
func brokersHint(err error, mechanism string) string {
	var certificate *tls.CertificateVerificationError
	var closed *kgo.ErrFirstReadEOF
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed) && mechanism == "aws_msk_iam": // the brokers say no more
		return "check that the keys of AWS still count, that their role or user may kafka-cluster:Connect to this cluster, that the region is the cluster's, and the clock of this machine"
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "check kafka.sasl_username, and the password or token"
	case errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		return "set kafka.sasl_mechanism to one that the brokers offer"
	case errors.As(err, &certificate):
		return "check kafka.tls_ca_file, and that kafka.brokers are names for which the brokers have certificates"
	case err != nil && strings.Contains(err.Error(), "invalid large response size"): // franz-go has no type for it
		return "check kafka.brokers: something answers there that is not Kafka, or that wants TLS (kafka.tls_enabled)"
	case errors.As(err, &closed):
		return "check that kafka.tls_enabled and kafka.sasl_mechanism are what this listener of the brokers wants"
	}
	return "check that the brokers run, and kafka.brokers"
}

func checkBrokers(ctx context.Context, p *patient) ([]result, error) {
	seeds := strings.Join(p.Settings.Kafka.Brokers, ", ")
	if p.Kafka == nil {
		return fail("set kafka.brokers", "kafka.brokers is not set"), nil
	}
	brokers, err := p.admin.ListBrokers(ctx)
	if err != nil {
		return fail(brokersHint(err, p.Settings.Kafka.SASLMechanism), "no broker of %s answers: %v", seeds, err), nil
	}
	p.brokersReached, p.brokers = len(brokers) > 0, brokers
	var silent []string
	for _, b := range brokers {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err := p.Kafka.Broker(int(b.NodeID)).RetriableRequest(ctx, kmsg.NewPtrApiVersionsRequest())
		cancel()
		if err != nil {
			silent = append(silent, fmt.Sprintf("%d at %s:%d (%v)", b.NodeID, b.Host, b.Port, err))
		} else {
			p.answering = append(p.answering, b.NodeID)
		}
	}
	switch {
	case len(silent) == len(brokers):
		return fail("set the brokers' advertised.listeners to addresses that can be reached from here",
			"%s answers, and not one of the brokers that it names: %s", seeds, strings.Join(silent, ", ")), nil
	case len(silent) > 0:
		return fail("start them, or correct their advertised.listeners: the partitions that they lead get nothing", "of %d brokers some do not answer: %s", len(brokers), strings.Join(silent, ", ")), nil
	}
	return well("%s", plural.Of(len(brokers), "broker, and it answers", "brokers, and all answer")), nil
}

func checkProducer(ctx context.Context, p *patient) ([]result, error) {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp, err := req.RequestWith(ctx, p.Kafka)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	switch {
	case errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.TopicAuthorizationFailed):
		return fail("grant IdempotentWrite on the cluster, or (from Kafka 2.8 on) Write on any topic, to this client", "this client may not produce: %v", err), nil
	case err != nil:
		return nil, err
	}
	return well("the brokers give producer ids: writes are idempotent"), nil
}

func checkBrokerSize(ctx context.Context, p *patient) ([]result, error) {
	smallest, hidden, err := smallestOf(ctx, p, "message.max.bytes")
	ours := int64(p.Settings.Kafka.MaxMessageBytes)
	switch {
	case err != nil || hidden != nil:
		return hidden, err
	case smallest < 0:
		return skip("", "the brokers do not say their message.max.bytes"), nil
	case smallest < ours:
		return warn(fmt.Sprintf("set kafka.max_message_bytes to %d, or raise message.max.bytes of the brokers", smallest),
			"message.max.bytes of the brokers is %d, less than our kafka.max_message_bytes, %d: batches between them are refused, and then sent event by event", smallest, ours), nil
	}
	return well("the brokers take messages up to %d bytes, we send up to %d", smallest, ours), nil
}

func checkRequestSize(ctx context.Context, p *patient) ([]result, error) {
	ours := int64(p.Settings.Kafka.MaxRequestBytes)
	if slices.ContainsFunc(p.brokers, func(b kadm.BrokerDetail) bool { return strings.HasSuffix(strings.ToLower(b.Host), hubs) }) {
		if ours > hubRequest {
			return warn(fmt.Sprintf("set kafka.max_request_bytes to %d", hubRequest),
				"Azure Event Hubs closes the connection on requests over %d bytes, and kafka.max_request_bytes is %d: a backlog stands still until the relay has found out", hubRequest, ours), nil
		}
		return well("Azure Event Hubs takes requests up to %d bytes, we send up to %d", hubRequest, ours), nil
	}
	smallest, hidden, err := smallestOf(ctx, p, "socket.request.max.bytes")
	switch {
	case err != nil || hidden != nil:
		return hidden, err
	case smallest < 0:
		return well("we send requests up to %d bytes; the brokers do not say what they take, and the relay finds out", ours), nil
	case smallest < ours:
		return warn(fmt.Sprintf("set kafka.max_request_bytes to %d, or raise socket.request.max.bytes of the brokers", smallest),
			"socket.request.max.bytes of the brokers is %d, less than our kafka.max_request_bytes, %d: they close the connection on requests between them", smallest, ours), nil
	}
	return well("the brokers take requests up to %d bytes, we send up to %d", smallest, ours), nil
}

// smallestOf is the smallest value that a setting has at a broker, -1 where none says it, or why it is hidden.
func smallestOf(ctx context.Context, p *patient, key string) (smallest int64, hidden []result, err error) {
	configs, err := p.admin.DescribeBrokerConfigs(ctx, p.brokers.NodeIDs()...)
	if err != nil {
		return 0, nil, err
	}
	smallest = -1
	for _, rc := range configs {
		if errors.Is(rc.Err, kerr.ClusterAuthorizationFailed) {
			return 0, skip("grant DescribeConfigs on the cluster to this client", "this client may not see the settings of brokers"), nil
		}
		if rc.Err != nil {
			return 0, nil, rc.Err
		}
		for _, c := range rc.Configs {
			if n, err := strconv.ParseInt(c.MaybeValue(), 10, 64); c.Key == key && err == nil && (smallest < 0 || n < smallest) {
				smallest = n
			}
		}
	}
	return smallest, nil, nil
}

// shorten lists names, at most five.
func shorten(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	shown := names[:min(len(names), 5)]
	return strings.Join(shown, ", ") + more(len(names)-len(shown))
}
