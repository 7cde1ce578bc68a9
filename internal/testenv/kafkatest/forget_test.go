package kafkatest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestADeadMemberIsForgotten: one whose connection ends while its JoinGroup waits for an answer is given partitions, and
// they are another's later.
func TestADeadMemberIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := Virtual(t)
		topic := b.Topic(t, 4, nil)
		alive := b.Client(t, kgo.ConsumerGroup("g"), kgo.ConsumeTopics(topic), kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(10*time.Second),
			kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		producer := b.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		// read waits until the record with this offset was read of each partition.
		read := func(offset int64) {
			for p := range int32(4) {
				if err := producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: p}).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			of := map[int32]bool{}
			for len(of) < 4 && ctx.Err() == nil {
				alive.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
					if r.Offset == offset {
						of[r.Partition] = true
					}
				})
			}
		}
		read(0)

		dead := b.Client(t)
		join := kmsg.NewPtrJoinGroupRequest()
		join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "g", "consumer", 10_000, 60_000
		metadata := kmsg.NewConsumerMemberMetadata()
		metadata.Topics = []string{topic}
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = "range", metadata.AppendTo(nil)
		join.Protocols = append(join.Protocols, protocol)
		first, err := join.RequestWith(ctx, dead)
		if err != nil {
			t.Fatal(err)
		}
		join.MemberID = first.MemberID
		go func() { _, _ = join.RequestWith(ctx, dead) }()
		synctest.Wait() // it waits for the others to join again, which they do at their next heartbeat
		dead.Close()
		time.Sleep(5 * time.Second) // they have; half of the partitions are the dead one's

		if read(1); ctx.Err() != nil {
			t.Error("the partitions of a member that died while it joined were never another's")
		}
	})
}
