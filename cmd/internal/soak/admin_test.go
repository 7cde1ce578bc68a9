package soak

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// admin changes topics. It tries again for as long as a broker takes to come back.
type admin struct{ client *kadm.Client }

func newAdmin(t *testing.T, opts []kgo.Opt) *admin {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.MetadataMinAge(10 * time.Millisecond), kgo.DisableClientMetrics()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &admin{kadm.NewClient(client)}
}

// adminPatience is longer than a broker takes to come back.
const adminPatience = time.Minute

func insist(ctx context.Context, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, adminPatience)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// create returns when every partition of the new topic has a leader.
func (a *admin) create(ctx context.Context, topic string, partitions int32, configs map[string]string) error {
	values := make(map[string]*string, len(configs))
	for k, v := range configs {
		values[k] = &v
	}
	err := insist(ctx, "create topic "+topic, func(ctx context.Context) error {
		_, err := a.client.CreateTopic(ctx, partitions, 1, values, topic)
		if errors.Is(err, kerr.TopicAlreadyExists) {
			return nil // an earlier try did it
		}
		return err
	})
	if err != nil {
		return err
	}
	return insist(ctx, "wait for topic "+topic, func(ctx context.Context) error {
		details, err := a.client.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		if d := details[topic]; d.Err != nil || len(d.Partitions) != int(partitions) {
			return fmt.Errorf("%d partitions: %w", len(d.Partitions), d.Err)
		}
		for _, p := range details[topic].Partitions {
			if p.Err != nil || p.Leader < 0 {
				return fmt.Errorf("partition %d has leader %d: %w", p.Partition, p.Leader, p.Err)
			}
		}
		return nil
	})
}

// remove returns when the topic is gone.
func (a *admin) remove(ctx context.Context, topic string) error {
	return insist(ctx, "delete topic "+topic, func(ctx context.Context) error {
		_, err := a.client.DeleteTopic(ctx, topic)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return nil
		}
		if err == nil {
			err = errors.New("it was there until now")
		}
		return err
	})
}

// limit sets the largest message of a topic.
func (a *admin) limit(ctx context.Context, topic string, bytes int) error {
	return insist(ctx, "change topic "+topic, func(ctx context.Context) error {
		value := fmt.Sprint(bytes)
		answers, err := a.client.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &value}}, topic)
		for _, r := range answers {
			err = errors.Join(err, r.Err)
		}
		return err
	})
}
