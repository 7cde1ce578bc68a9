package kafkatest

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SilentMember puts a member of a classic group on the broker that says nothing any more. For five minutes, the longest
// session of kfake, the group waits for it: the next member's JoinGroup is not answered.
func (b *Broker) SilentMember(t testing.TB, group, topic string) {
	t.Helper()
	const session = 5 * time.Minute
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType = group, "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = int32(session.Milliseconds()), int32(session.Milliseconds())
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Topics = []string{topic}
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "cooperative-sticky", metadata.AppendTo(nil)
	join.Protocols = append(join.Protocols, protocol)
	for {
		answer, err := join.RequestWith(t.Context(), b.Client(t))
		if err != nil {
			t.Fatal(err)
		}
		if answer.ErrorCode == 0 {
			return
		}
		if err := kerr.ErrorForCode(answer.ErrorCode); !errors.Is(err, kerr.MemberIDRequired) {
			t.Fatal(err)
		}
		join.MemberID = answer.MemberID // the broker wants the id that it gives with its first answer
	}
}
