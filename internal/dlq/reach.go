package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Reach says whom messages reach when they are sent to a topic. The plan of an operation has the first fields as JSON.
type Reach struct {
	// Topic is the topic.
	Topic string `json:"topic"`
	// Messages is how many are sent there.
	Messages int64 `json:"messages"`
	// Failed are the consumer groups that gave them up, in alphabetical order; none for what the relay gave up.
	Failed []string `json:"failed"`
	// Again says that groups have had some of them before: a group gave them up, and not the relay.
	Again bool `json:"again"`
	// FailedReads says that one of Failed is known to read the topic. False where that is not known.
	FailedReads bool `json:"-"`
	// Others are the other consumer groups that read the topic, in alphabetical order.
	Others []string `json:"-"`
	// Unknown is why Others are not known; empty where they are.
	Unknown string `json:"-"`
}

// namedGroups is how many groups a sentence names.
const namedGroups = 20

// NotAsked is Reach.Unknown as long as no broker was asked.
const NotAsked = "no broker was asked"

// Explain says it for people.
func (r Reach) Explain() string {
	if r.Unknown != "" {
		return fmt.Sprintf("which consumer groups read %s is not known: %s; every group that reads it gets the messages", r.Topic, r.Unknown)
	}
	names := strings.Join(r.Others, ", ")
	if more := len(r.Others) - namedGroups; more > 0 {
		names = fmt.Sprintf("%s and %d more", strings.Join(r.Others[:namedGroups], ", "), more)
	}
	group, read, get, other := "groups", "read", "they get", "other "
	if len(r.Others) == 1 {
		group, read, get = "group", "reads", "it gets"
	}
	if len(r.Failed) == 0 {
		other = ""
	}
	switch {
	case len(r.Others) == 0 && !r.FailedReads: // a retry topic that its group has left
		return fmt.Sprintf("no consumer group is known to read %s", r.Topic)
	case len(r.Others) == 0:
		return fmt.Sprintf("no other group than %s is known to read %s", strings.Join(r.Failed, ", "), r.Topic)
	case !r.Again:
		return fmt.Sprintf("%d %s %s %s: %s; no group has had the messages yet", len(r.Others), group, read, r.Topic, names)
	}
	return fmt.Sprintf("%d %s%s %s %s: %s; %s the messages again, and an inbox recognises them by the ids that they keep", len(r.Others), other, group, read, r.Topic, names, get)
}

// reaches says of messages where they go and who gave them up, in the order of topics.
func reaches(sent []*Candidate) []Reach {
	byTopic := map[string]*Reach{}
	for _, c := range sent {
		r := byTopic[c.Target]
		if r == nil {
			r = &Reach{Topic: c.Target, Failed: []string{}, Unknown: NotAsked}
			byTopic[c.Target] = r
		}
		r.Messages++
		r.Again = r.Again || c.Subject == SubjectRecord
		if c.Group != "" && !slices.Contains(r.Failed, c.Group) {
			r.Failed = append(r.Failed, c.Group)
		}
	}
	all := make([]Reach, 0, len(byTopic))
	for _, r := range byTopic {
		slices.Sort(r.Failed)
		all = append(all, *r)
	}
	slices.SortFunc(all, func(a, b Reach) int { return cmp.Compare(a.Topic, b.Topic) })
	return all
}

const (
	// readersTimeout bounds a question to the brokers: people wait for the answer.
	readersTimeout = 3 * time.Second
	// readersPause is how long they are not asked again after they did not answer.
	readersPause = 10 * time.Second
)

// Reaching returns r, which then asks who reads the topics that messages are sent to. Without readers, which may be nil,
// it says that this is not known.
func Reaching(r Redriver, readers Readers) Redriver {
	return &reachingRedriver{Redriver: r, readers: readers}
}

type reachingRedriver struct {
	Redriver
	readers Readers

	mu       sync.Mutex
	askAgain time.Time // nothing is asked before
}

// ask fills in the groups that read the topics. It never fails: what is not known is said.
func (r *reachingRedriver) ask(ctx context.Context, all []Reach) {
	if len(all) == 0 {
		return
	}
	unknown := func(why string) {
		for i := range all {
			all[i].Unknown = why
		}
	}
	if r.readers == nil {
		unknown("no brokers are given")
		return
	}
	r.mu.Lock()
	wait := time.Now().Before(r.askAgain)
	r.mu.Unlock()
	if wait {
		unknown("the brokers did not answer a moment ago")
		return
	}
	topics := make([]string, len(all))
	for i := range all {
		topics[i] = all[i].Topic
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readersTimeout)
	defer cancel()
	groups, err := r.readers.Readers(ctx, topics)
	if err != nil {
		why := "the brokers did not answer in time"
		if errors.Is(err, ErrReadersRefused) {
			why = ErrReadersRefused.Error()
		} else {
			r.mu.Lock()
			r.askAgain = time.Now().Add(readersPause)
			r.mu.Unlock()
		}
		unknown(why)
		return
	}
	for i := range all {
		all[i].Unknown = ""
		for _, g := range slices.Sorted(slices.Values(groups[all[i].Topic])) {
			if slices.Contains(all[i].Failed, g) {
				all[i].FailedReads = true
			} else {
				all[i].Others = append(all[i].Others, g)
			}
		}
	}
}

func (r *reachingRedriver) Redrive(ctx context.Context, req RedriveRequest) (Requeued, error) {
	done, err := r.Redriver.Redrive(ctx, req)
	if err == nil {
		r.ask(ctx, done.Reaches)
	}
	return done, err
}

func (r *reachingRedriver) Preview(ctx context.Context, req RedriveRequest) (Requeued, error) {
	would, err := r.Redriver.Preview(ctx, req)
	if err == nil {
		r.ask(ctx, would.Reaches)
	}
	return would, err
}

func (r *reachingRedriver) PlanOperation(ctx context.Context, n NewOperation) (Operation, error) {
	o, err := r.Redriver.PlanOperation(ctx, n)
	if err == nil {
		r.ask(ctx, o.Reaches)
	}
	return o, err
}

// Operation asks of operations that have not begun: of the others it is too late.
func (r *reachingRedriver) Operation(ctx context.Context, id uuid.UUID) (Operation, error) {
	o, err := r.Redriver.Operation(ctx, id)
	if err != nil || o.State != Planned {
		o.Reaches = nil
		return o, err
	}
	r.ask(ctx, o.Reaches)
	return o, nil
}
