package dlq

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// readersTimeout bounds the wait for the turn to ask the brokers, and then the question: people wait for the answer.
	readersTimeout = 3 * time.Second
	// readersFresh is how long an answer of the brokers is used again. A plan that is looked at again and again, by people
	// or programs, asks the brokers no more often.
	readersFresh = 5 * time.Second
	// readersPause is how long they are not asked again after they did not answer, or refused to.
	readersPause = 10 * time.Second
)

// Reaching returns r, which then asks who reads the topics that messages are sent to. Without readers, which may be nil,
// it says that this is not known.
func Reaching(r Redriver, readers Readers) Redriver {
	return &reachingRedriver{Redriver: r, readers: readers, turn: make(chan struct{}, 1), answers: map[string]topicAnswer{}}
}

type reachingRedriver struct {
	Redriver
	readers Readers
	// turn has room for one: one question is asked at a time, and the callers that waited for it find its answer.
	turn chan struct{}

	mu      sync.Mutex
	answers map[string]topicAnswer // by topic
	// askAgain is before when nothing is asked, and silence why.
	askAgain time.Time
	silence  string
}

// topicAnswer is what the brokers said of a topic.
type topicAnswer struct {
	groups   []string
	missing  bool
	unasked  []UnaskedGroup
	unlisted int
	until    time.Time // when it is too old
}

// ask fills in the groups that read the topics. It never fails: what is not known is said.
func (r *reachingRedriver) ask(ctx context.Context, all []Reach) {
	if len(all) == 0 {
		return
	}
	topics := make([]string, len(all))
	for i := range all {
		topics[i] = all[i].Topic
	}
	answers, why := r.answersOf(ctx, topics)
	for i := range all {
		if all[i].Unknown = why; why == "" {
			all[i].fill(answers[i])
		}
	}
}

// fill writes an answer of the brokers into r.
func (r *Reach) fill(a topicAnswer) {
	r.Missing, r.Unasked, r.Unlisted = a.missing, a.unasked, a.unlisted
	for _, g := range a.groups {
		if slices.Contains(r.Failed, g) {
			r.FailedReads = true
		} else {
			r.Others = append(r.Others, g)
		}
	}
}

// answersOf returns what the brokers say of each topic, or why that is not known.
func (r *reachingRedriver) answersOf(ctx context.Context, topics []string) (answers []topicAnswer, why string) {
	if r.readers == nil {
		return nil, "no brokers are given"
	}
	if answers, why, known := r.remembered(topics); known {
		return answers, why
	}
	// The question has a time of its own: what is left of the wait may be too short for brokers that are well.
	waiting, cancel := context.WithTimeout(ctx, readersTimeout)
	defer cancel()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-waiting.Done():
		return nil, "the brokers have not answered an earlier question yet"
	}
	if answers, why, known := r.remembered(topics); known { // what it waited for
		return answers, why
	}
	asking, cancel := context.WithTimeout(ctx, readersTimeout)
	defer cancel()
	reading, err := r.readers.Readers(asking, topics)
	switch {
	case err == nil:
		return r.remember(topics, reading), ""
	case ctx.Err() != nil: // the caller is gone, or has no time left: that says nothing about the brokers
		return nil, "there was no time to ask the brokers"
	case errors.Is(err, ErrReadersRefused):
		why = ErrReadersRefused.Error()
	case errors.Is(err, context.DeadlineExceeded):
		why = "the brokers did not answer in time"
	default:
		why = "the brokers could not be asked"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.askAgain, r.silence = time.Now().Add(readersPause), why
	return nil, why
}

// remembered returns the answers about all these topics, if they are fresh; or why the brokers are not asked for now.
func (r *reachingRedriver) remembered(topics []string) (answers []topicAnswer, why string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, topic := range topics {
		if a, there := r.answers[topic]; there && now.Before(a.until) {
			answers = append(answers, a)
		}
	}
	if len(answers) == len(topics) {
		return answers, "", true
	}
	return nil, r.silence, now.Before(r.askAgain)
}

// remember keeps what the brokers said of each topic, forgets what is too old, and returns the former.
func (r *reachingRedriver) remember(topics []string, reading Reading) []topicAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for topic, a := range r.answers {
		if !now.Before(a.until) {
			delete(r.answers, topic)
		}
	}
	answers := make([]topicAnswer, len(topics))
	for i, topic := range topics {
		answers[i] = topicAnswer{groups: slices.Sorted(slices.Values(reading.Groups[topic])), missing: slices.Contains(reading.Missing, topic),
			unasked: reading.Unasked, unlisted: reading.Unlisted, until: now.Add(readersFresh)}
		r.answers[topic] = answers[i]
	}
	return answers
}

func (r *reachingRedriver) Redrive(ctx context.Context, req RedriveRequest) (Requeued, error) {
	// The brokers are asked while sources are waited for.
	var asking sync.WaitGroup
	var reaches []Reach
	told := req.Written
	req.Written = func(written Requeued) {
		reaches = slices.Clone(written.Reaches)
		asking.Go(func() { r.ask(ctx, reaches) })
		if told != nil {
			told(written)
		}
	}
	done, err := r.Redriver.Redrive(ctx, req)
	asking.Wait()
	if reaches != nil {
		done.Reaches = reaches
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
