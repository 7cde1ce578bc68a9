package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/adopt"
)

// follower is a run without brokers. What it says, and the ids of the differences that it tells, are kept.
func follower(f Follow) (g *following, said, told *[]string) {
	said, told = &[]string{}, &[]string{}
	f.Say = func(format string, args ...any) { *said = append(*said, fmt.Sprintf(format, args...)) }
	f.Found = func(d Difference) { *told = append(*told, d.ID) }
	return newFollowing(f), said, told
}

// fetched is what a reader returns: a record for each id, in the order of the ids.
func fetched(of side, value string, ids ...string) kgo.Fetches {
	var records []*kgo.Record
	for _, id := range ids {
		r := recordOf(of, "k", value)
		r.Headers = []kgo.RecordHeader{{Key: "id", Value: []byte(id)}}
		records = append(records, r)
	}
	return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: recordOf(of, "", "").Topic, Partitions: []kgo.FetchPartition{{Records: records}}}}}}
}

// TestATopicThatIsAheadIsNotRead: while one side of a topic is far ahead, its reader is paused; when the pair comes, it goes on. An id that
// is too long is none.
func TestATopicThatIsAheadIsNotRead(t *testing.T) {
	t.Parallel()
	g, _, told := follower(Follow{Shadow: adopt.Forward{Prefix: "s."}, Every: time.Hour, Wait: time.Hour})
	for of := range g.readers {
		reader, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		g.readers[of] = reader
	}
	g.admin = kadm.NewClient(g.readers[ours])
	batches := [2]chan kgo.Fetches{make(chan kgo.Fetches), make(chan kgo.Fetches)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan Progress, 1)
	go func() {
		n, _ := g.run(ctx, batches)
		done <- n
	}()
	batches[ours] <- fetched(ours, string(make([]byte, pairsWindow)), "large")
	batches[theirs] <- fetched(theirs, "v", "other", strings.Repeat("x", longestID+1)) // the batch before is done when it is taken
	if paused := g.readers[ours].PauseFetchTopics(); !slices.Equal(paused, []string{"s.t"}) || len(g.readers[theirs].PauseFetchTopics()) > 0 {
		t.Errorf("%q are paused", paused)
	}
	batches[theirs] <- fetched(theirs, "v", "large")
	batches[theirs] <- fetched(theirs, "v", "next")
	if paused := g.readers[ours].PauseFetchTopics(); len(paused) > 0 {
		t.Errorf("%q are paused still", paused)
	}
	stop()
	if n := <-done; n.Compared != 1 || n.Differing != 1 || n.Others != 1 || n.Waiting != [2]int{0, 2} || !slices.Equal(*told, []string{"large"}) {
		t.Errorf("%+v, %q", n, *told)
	}
}

// TestTheEndCountsWhatIsOverdue: records whose time is over are counted when the comparison is stopped, whatever the time of a
// line of progress is; a record that is not overdue is not.
func TestTheEndCountsWhatIsOverdue(t *testing.T) {
	t.Parallel()
	g, _, told := follower(Follow{Every: time.Hour, Wait: time.Minute})
	g.pairs.add(theirs, recordOf(theirs, "k", "v"), "overdue", false, time.Now().Add(-time.Hour))
	g.pairs.add(theirs, recordOf(theirs, "k", "v"), "waits", false, time.Now().Add(time.Hour))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if n, err := g.run(ctx, [2]chan kgo.Fetches{}); err != nil || n.Missing != 1 || n.Same() || !slices.Equal(*told, []string{"overdue"}) {
		t.Errorf("%+v, %v, %q", n, err, *told)
	}
}

// TestTheShadowIsLookedAt: the comparison ends with the shadow that it is of; that the database does not answer is said.
func TestTheShadowIsLookedAt(t *testing.T) {
	t.Parallel()
	shadow := adopt.Forward{Table: "public.outbox", Mode: adopt.ModeShadow, Prefix: "s.", Definition: adopt.Definition{Payload: "payload", Headers: []adopt.Header{{Column: "type", Name: "type"}}}}
	other, prefixed, cut := shadow, shadow, shadow
	other.Definition.Headers = []adopt.Header{{Column: "type", Name: "kind"}}
	prefixed.Prefix = "t."
	cut.Mode = adopt.ModeHeld
	same := shadow
	same.Definition.Headers = slices.Clone(shadow.Definition.Headers)
	for _, c := range []struct {
		now  *adopt.Forward
		says string
	}{{&same, ""}, {nil, "has no shadow any more"}, {&cut, "has no shadow any more"}, {&prefixed, "was changed"}, {&other, "run --follow again"}} {
		g, _, _ := follower(Follow{Shadow: shadow, Now: func(context.Context) (*adopt.Forward, error) { return c.now, nil }})
		if why := g.ended(t.Context()); (why == "") != (c.says == "") || !strings.Contains(why, c.says) {
			t.Errorf("%+v: %q", c.now, why)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		g, said, _ := follower(Follow{Shadow: shadow, Now: func(ctx context.Context) (*adopt.Forward, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		if why := g.ended(t.Context()); why != "" || len(*said) != 1 || !strings.Contains((*said)[0], "is not known: context deadline exceeded") {
			t.Errorf("a database that does not answer: %q, %q", why, *said)
		}
	})
}

// TestWhatAReaderSays: that records are lost is said, and the comparison goes on; any other error ends it.
func TestWhatAReaderSays(t *testing.T) {
	t.Parallel()
	g, said, _ := follower(Follow{})
	failing := func(err error) kgo.Fetches {
		f := fetched(theirs, "v", "a")
		f[0].Topics[0].Partitions[0].Err = err
		return f
	}
	if err := g.addFetched(theirs, failing(&kgo.ErrDataLoss{Topic: "t", ConsumedTo: 7, ResetTo: 3})); err != nil || len(*said) != 1 || g.pairs.progress().Waiting[ours] != 1 {
		t.Errorf("%v, %q", err, *said)
	}
	if err := g.addFetched(theirs, failing(errors.New("unreadable"))); err == nil || !strings.Contains(err.Error(), "read t, partition 0: unreadable") {
		t.Errorf("%v", err)
	}
}

// TestDifferencesAreBounded: the first are told, the others are counted, anew after each line of progress.
func TestDifferencesAreBounded(t *testing.T) {
	t.Parallel()
	g, said, told := follower(Follow{})
	for range 2 {
		*said, *told = nil, nil
		for i := range mostDifferences + 3 {
			g.differs(Difference{ID: fmt.Sprint(i)})
		}
		g.more()
		if len(*told) != mostDifferences || len(*said) != 1 || !strings.HasPrefix((*said)[0], "and 3 more differ") {
			t.Errorf("%d were told, and %q", len(*told), *said)
		}
	}
	*said = nil
	g.more()
	if len(*said) > 0 {
		t.Errorf("%q", *said)
	}
}
