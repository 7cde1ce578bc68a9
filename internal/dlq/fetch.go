package dlq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message/dialect"
)

// FetcherConfig is what a Fetcher needs.
type FetcherConfig struct {
	// Pointers keeps the letters. Required.
	Pointers Pointers
	// Originals reads the records. Required.
	Originals Originals
	// Timeout bounds each round of questions to the brokers. Defaults to DefaultOriginalsTimeout.
	Timeout time.Duration
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Fetcher asks for the records that letters point to, where the collector could not: its brokers were away, or it may
// not read the topic. It is safe for concurrent use.
type Fetcher struct {
	cfg FetcherConfig
	log *slog.Logger

	mu sync.Mutex
	// askAgain is the time before which Fetcher asks for nothing on its own.
	askAgain time.Time
}

// NewFetcher checks the configuration.
func NewFetcher(cfg FetcherConfig) (*Fetcher, error) {
	switch {
	case cfg.Pointers == nil || cfg.Originals == nil:
		return nil, errors.New("fetcher of originals: Pointers and Originals are required")
	case cfg.Timeout < 0:
		return nil, errors.New("fetcher of originals: Timeout is negative")
	case cfg.Timeout == 0:
		cfg.Timeout = DefaultOriginalsTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Fetcher{cfg: cfg, log: cfg.Logger.With(slog.String("component", "originals"))}, nil
}

// Fetched says what became of asking for the record that the newest letter of an investigation points to.
type Fetched struct {
	Entry uuid.UUID
	// Letter is the letter's id; empty where nothing had to be asked for, because the message is in the letter.
	Letter string
	// Place is where the record is, or was.
	Place Place
	State OriginalState
	// GoneAt is when retention deletes the record from its topic; zero where it does not, or that is not known.
	GoneAt time.Time
	// Err says more about a state that is not OriginalFetched; may be nil.
	Err error
}

// Explain says what it means and what to do.
func (f Fetched) Explain() string {
	if f.Letter == "" {
		return "nothing to fetch: its message is in the letter, or in the outbox"
	}
	place := fmt.Sprintf("%s, partition %d, offset %d", f.Place.Topic, f.Place.Partition, f.Place.Offset)
	until := ""
	if !f.GoneAt.IsZero() {
		until = "; the topic keeps it until " + timeText(f.GoneAt)
	}
	switch f.State {
	case OriginalFetched:
		return "the letter now has the record of " + place + until
	case OriginalDeleted:
		return "gone: the record of " + place + " was deleted"
	case OriginalCompacted:
		return "gone: the record of " + place + " was compacted away, a later one has its key"
	case OriginalMarker:
		return "gone: " + place + " is the marker of a transaction, and no record"
	case OriginalAbsent:
		return "gone: there is no " + place
	case OriginalOther:
		return "gone: another record is at " + place + ", the topic was made anew"
	case OriginalNoTopic:
		return "gone: there is no topic " + f.Place.Topic
	case OriginalNoLeader:
		return "not yet: partition " + fmt.Sprint(f.Place.Partition) + " of " + f.Place.Topic + " has no leader; ask again" + until
	case OriginalRefused:
		return "not yet: the login may not read " + f.Place.Topic + "; allow it, and ask again" + until
	}
	return "not yet: no broker answered for " + place + "; ask again" + until
}

// Fetch asks for the records that the newest letters of investigations point to, each once, and stores them. It
// answers for each investigation in the order given.
func (f *Fetcher) Fetch(ctx context.Context, entries []uuid.UUID, actor string) ([]Fetched, error) {
	letters, err := f.cfg.Pointers.Pointing(ctx, entries)
	if err != nil {
		return nil, err
	}
	done, err := f.fetch(ctx, letters, actor)
	if err != nil {
		return nil, err
	}
	byEntry := make(map[uuid.UUID]Fetched, len(done))
	for _, d := range done {
		byEntry[d.Entry] = d
	}
	all := make([]Fetched, len(entries))
	for i, id := range entries {
		all[i] = byEntry[id]
		all[i].Entry = id
	}
	return all, nil
}

// fetchAtOnce is how many records are asked for and stored together: they are in memory meanwhile.
const fetchAtOnce = 200

// fetch asks for the records of letters, and stores what came of it. When no broker answers, the rest is not asked for.
func (f *Fetcher) fetch(ctx context.Context, letters []Letter, actor string) ([]Fetched, error) {
	all := make([]Fetched, 0, len(letters))
	for part := range slices.Chunk(letters, fetchAtOnce) {
		done, answered, err := f.fetchSome(ctx, part, actor)
		if all = append(all, done...); err != nil {
			return all, err
		}
		if !answered {
			break
		}
	}
	for i := len(all); i < len(letters); i++ {
		l := &letters[i]
		all = append(all, Fetched{Entry: l.EntryUUID, Letter: l.ID, Place: placeOf(l), State: OriginalUnanswered})
	}
	return all, nil
}

// placeOf is where the record is that a letter points to.
func placeOf(l *Letter) Place { return Place{l.OriginTopic, *l.OriginPartition, *l.OriginOffset} }

// fetchSome is fetch of a few; answered is false where no broker did.
func (f *Fetcher) fetchSome(ctx context.Context, letters []Letter, actor string) (done []Fetched, answered bool, err error) {
	places := make([]Place, len(letters))
	for i := range letters {
		l := &letters[i]
		places[i] = placeOf(l)
		// The time of the record, where it is known, is a part of the subject: it tells the record from another at its place.
		if r, ok := dialect.ParseFailedRecord(l.Subject.recordID()); ok && (Place{r.Topic, r.Partition, r.Offset}) == places[i] {
			l.CreatedAt = r.Timestamp
		}
	}
	asking, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	answers := f.cfg.Originals.Fetch(asking, places)
	cancel()
	done = make([]Fetched, len(letters))
	for i, o := range answers {
		l := &letters[i]
		done[i] = Fetched{Entry: l.EntryUUID, Letter: l.ID, Place: places[i], State: l.Complete(o), Err: o.Err, GoneAt: l.goneAt(o)}
	}
	answered = slices.ContainsFunc(done, func(d Fetched) bool { return d.State != OriginalUnanswered })
	f.mu.Lock()
	f.askAgain = time.Time{}
	if !answered {
		f.askAgain = time.Now().Add(originalsPause)
	}
	f.mu.Unlock()
	return done, answered, f.cfg.Pointers.Complete(ctx, letters, actor)
}

// try fetches without an operator's request: only letters for which asking again may help, and not while brokers do not
// answer. If it fails, the redrive goes on, and says that the message is not there.
func (f *Fetcher) try(ctx context.Context, letters []Letter, err error, actor string) {
	f.mu.Lock()
	wait := time.Now().Before(f.askAgain)
	f.mu.Unlock()
	if err == nil && !wait {
		var ask []Letter
		for _, l := range letters {
			if l.OriginalRecord == "" || l.OriginalRecord.Passing() {
				ask = append(ask, l)
			}
		}
		_, err = f.fetch(ctx, ask, actor)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNotFound) {
		f.log.Warn("what dead letters point to was not fetched before they are sent again", slog.Any("err", err))
	}
}

// Redriver returns r, which then asks for what letters point to before it sends them again.
func (f *Fetcher) Redriver(r Redriver) Redriver { return fetchingRedriver{r, f} }

type fetchingRedriver struct {
	Redriver
	f *Fetcher
}

func (r fetchingRedriver) Redrive(ctx context.Context, req RedriveRequest) (Requeued, error) {
	if req.Check() == nil {
		letters, err := r.f.cfg.Pointers.Pointing(ctx, req.Entries)
		r.f.try(ctx, letters, err, req.Actor)
	}
	return r.Redriver.Redrive(ctx, req)
}

// stepAhead is for how many of the next items of each operation records are asked for before a step.
const stepAhead = 500

// Operations returns o, which then asks for what letters point to before a step sends them again.
func (f *Fetcher) Operations(o Operations) Operations { return fetchingOperations{o, f} }

type fetchingOperations struct {
	Operations
	f *Fetcher
}

func (o fetchingOperations) Step(ctx context.Context) (int, time.Duration, error) {
	letters, err := o.f.cfg.Pointers.PointingNext(ctx, stepAhead)
	o.f.try(ctx, letters, err, "postrider")
	return o.Operations.Step(ctx)
}
