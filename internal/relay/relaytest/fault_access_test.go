package relaytest

import (
	"crypto/tls"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestFault12NotAllowed: the relay's login may not write to one topic until the right is granted. Its events wait and say
// why, nothing is given up, and the other topic goes on. After the grant all arrives by itself.
func TestFault12NotAllowed(t *testing.T) {
	t.Parallel()
	topicACL := func(name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	broker := kafkatest.Kfake(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.SeedTopics(2, "closed", "open", "dlq"),
		kfake.Superuser("PLAIN", "root", "root"), kfake.User("PLAIN", "relay", "secret",
			kfake.ACL{Resource: kmsg.ACLResourceTypeCluster, Name: "kafka-cluster", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationIdempotentWrite, Allow: true},
			topicACL("open", kmsg.ACLOperationWrite), topicACL("open", kmsg.ACLOperationDescribe),
			topicACL("dlq", kmsg.ACLOperationWrite), topicACL("dlq", kmsg.ACLOperationDescribe),
			topicACL("closed", kmsg.ACLOperationDescribe)))
	r := newRigOn(t, pgtest.New(t).URL, broker.As(kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism())))
	l := r.newLedger("closed", "open")
	l.write("closed", 5, 4)
	l.write("open", 5, 4)
	r.startWith("dlq", options{kafka: func(c *kafka.Config) {
		c.Options = append(c.Options, kgo.SASL(plain.Auth{User: "relay", Pass: "secret"}.AsMechanism()))
	}})
	r.until(held, "closed", "TOPIC_AUTHORIZATION_FAILED")
	r.until(gone, "open")
	l.write("closed", 5, 4)
	acl := kadm.NewACLs().Topics("closed").ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite).Allow("User:relay").AllowHosts("*")
	granted, err := r.broker.Admin(t).CreateACLs(t.Context(), acl)
	if err != nil || granted[0].Err != nil {
		t.Fatal(err, granted)
	}
	r.until(drained)
	l.wantOnce("dlq")
}

// TestFault12LoginRefused: the password is wrong from the start, and later changes and changes back under
// load. The relay waits, gives nothing up, and goes on when the login is good again.
func TestFault12LoginRefused(t *testing.T) {
	t.Parallel()
	broker := kafkatest.Kfake(t, kfake.EnableSASL(), kfake.SeedTopics(2, "topic", "dlq"), kfake.Superuser("PLAIN", "root", "root"),
		kfake.User("SCRAM-SHA-256", "relay", "old"))
	r := newRigOn(t, pgtest.New(t).URL, broker.As(kgo.SASL(plain.Auth{User: "root", Pass: "root"}.AsMechanism())))
	password := func(pass string) {
		t.Helper()
		changed, err := r.broker.Admin(t).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{{User: "relay", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: pass}})
		if err != nil || changed["relay"].Err != nil {
			t.Fatal(err, changed)
		}
	}
	l := r.newLedger("topic")
	l.write("topic", 5, 4)
	e := r.startWith("dlq", options{kafka: func(c *kafka.Config) {
		c.Options = append(c.Options, kgo.SASL(scram.Auth{User: "relay", Pass: "new"}.AsSha256Mechanism()))
	}})
	r.untilMetric(e, "postrider_outbox_brokers_away", 1)
	password("new")
	r.until(drained)
	r.untilMetric(e, "postrider_outbox_brokers_away", 0)
	password("other") // an open connection lives on; a new one is refused
	r.broker.Cluster.ShufflePartitionLeaders()
	l.write("topic", 5, 4)
	password("new")
	l.write("topic", 5, 4)
	r.until(drained)
	l.wantOnce("dlq")
}

// TestFault12CertificateExpired: the brokers' certificate has expired, and then it is renewed.
func TestFault12CertificateExpired(t *testing.T) {
	t.Parallel()
	authority := kafkatest.NewAuthority(t)
	expired, good := authority.Pair(t, "broker", -time.Hour), authority.Pair(t, "broker", time.Hour)
	var current atomic.Pointer[tls.Certificate]
	current.Store(&expired)
	broker := kafkatest.Kfake(t, kfake.SeedTopics(2, "topic", "dlq"), kfake.TLS(&tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil },
	}))
	dial := kgo.DialTLSConfig(&tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS13})
	r := newRigOn(t, pgtest.New(t).URL, broker.As(dial))
	l := r.newLedger("topic")
	l.write("topic", 5, 4)
	e := r.startWith("dlq", options{kafka: func(c *kafka.Config) { c.Options = append(c.Options, dial) }})
	r.untilMetric(e, "postrider_outbox_brokers_away", 1)
	current.Store(&good)
	r.until(drained)
	l.wantOnce("dlq")
}
