package dlq

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/postrider/postrider/message"
)

// redriveCase is a request, what the database and the outbox say, and what becomes of each investigation.
type redriveCase struct {
	request    RedriveRequest
	candidates []*Candidate
	// own are Postrider's own topics.
	own []string
	// owners are the named sources that may write to a topic.
	owners func(topic string) []string
	// named reports whether the settings name a source.
	named func(source string) bool
	// bytes bounds a batch of an operation; 0 does not.
	bytes int
	// standings are the standings of events, by their ids in the outbox; an event without one is dead-lettered, as its letter says.
	standings map[int64]EventStanding
	// halting and behind are what the outbox says of keys.
	halting, behind []int64
	want            string
}

// candidate is the investigation of event n of the outbox, given up once, with its letter.
func candidate(n int, change ...func(*Candidate)) *Candidate {
	id := int64(n)
	c := &Candidate{Entry: planID(n), Subject: SubjectEvent, Status: Pending, Letter: fmt.Sprintf("letter-%d", n), Event: planID(100 + n), OutboxID: &id,
		Episode: 1, Origin: Place{Topic: "orders"}, ReadAt: Place{Topic: "dead", Offset: id}}
	for _, f := range change {
		f(c)
	}
	return c
}

// record is the investigation of a record that a consumer group gave up.
func record(n int, change ...func(*Candidate)) *Candidate {
	return candidate(n, append([]func(*Candidate){func(c *Candidate) {
		c.Subject, c.Event, c.OutboxID, c.Episode = SubjectRecord, uuid.Nil, nil, 0
		c.Origin.Offset, c.Group = int64(n), "billing"
	}}, change...)...)
}

// describe says what was decided, a line for each candidate in the order of the plan.
func (p *RedrivePlan) describe() string {
	var lines []string
	for _, c := range p.Candidates {
		line := fmt.Sprintf("%d ", c.Entry[15])
		switch {
		case c.Skip != "":
			line += "skipped " + string(c.Skip)
		case c.InPlace:
			line += fmt.Sprintf("in place of %d, episode %d", c.NewID, c.Episode)
		case c.ofSource():
			line += fmt.Sprintf("asked of %s for %s", c.Source, c.Target)
		default:
			line += fmt.Sprintf("new for %s", c.Target)
		}
		if c.Skip == "" && c.Headers != nil {
			line += " with headers"
			for _, h := range c.Headers {
				line += " " + h.Name + "=" + string(h.Value)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// plan takes all steps, with an outbox that takes everything.
func (c *redriveCase) plan() *RedrivePlan {
	p := PlanRedrive(c.request, c.own, c.owners, c.named, c.candidates)
	if c.bytes > 0 {
		p.LeaveForLater(c.bytes)
	}
	var standings []EventStanding
	for _, e := range p.Events() {
		s, said := c.standings[*e.OutboxID]
		if !said {
			s = EventStanding{"dead_lettered", e.Episode}
		}
		standings = append(standings, s)
	}
	p.CheckOutbox(standings)
	for _, e := range p.CheckKeys(c.halting, c.behind) {
		e.RedrivenInPlace()
	}
	p.NewEvents()
	return p
}

// TestPlanKnowsItsOwnEvents: the outbox of another source has the same ids. An event of it is not taken for the event of this
// outbox with its id: neither is redriven in place of the other.
func TestPlanKnowsItsOwnEvents(t *testing.T) {
	t.Parallel()
	own, foreign := candidate(1), candidate(1)
	foreign.Event = uuid.New()
	p := PlanRedrive(RedriveRequest{}, nil, nil, nil, []*Candidate{own, foreign})
	standings := map[uuid.UUID]EventStanding{own.Event: {"dead_lettered", 1}}
	var asked []EventStanding
	for _, e := range p.Events() {
		asked = append(asked, standings[e.Event])
	}
	if len(asked) != 2 {
		t.Fatalf("the outbox is asked about %d events, want both", len(asked))
	}
	p.CheckOutbox(asked)
	if left := p.Events(); len(left) != 1 || left[0] != own {
		t.Errorf("its own events are %v", left)
	}
	if inPlace := p.CheckKeys([]int64{1}, nil); len(inPlace) != 1 || inPlace[0] != own {
		t.Errorf("redriven in place are %v", inPlace)
	}
}

func runRedrives(t *testing.T, cases map[string]redriveCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := c.plan()
			if got := p.describe(); got != c.want {
				t.Errorf("decided:\n%s\nwant:\n%s", got, c.want)
			}
			checkSent(t, p)
		})
	}
}

// checkSent: each candidate is either sent or skipped, and what is sent is either in its place or a new event.
func checkSent(t *testing.T, p *RedrivePlan) {
	t.Helper()
	r := p.Result()
	if len(r.Entries)+len(r.Skipped) != len(p.Candidates) || len(r.Entries) != len(p.Sent()) {
		t.Errorf("%d candidates, %d sent, result %+v", len(p.Candidates), len(p.Sent()), r)
	}
	fresh := p.NewEvents()
	for _, c := range p.Candidates {
		if c.Skip == "" && (c.InPlace || c.ofSource()) == slices.Contains(fresh, c) {
			t.Errorf("%d is in its place: %v; a new event: %v", c.Entry[15], c.InPlace, !c.InPlace)
		}
		if (c.Skip == "") != (c.Size() > 0) {
			t.Errorf("%d has a size of %d", c.Entry[15], c.Size())
		}
	}
}

func planLines(all ...string) string { return strings.Join(all, "\n") }

// TestPlanOfAnInvestigation: what its own rows say, without the outbox. The first reason counts.
func TestPlanOfAnInvestigation(t *testing.T) {
	t.Parallel()
	one := func(change func(*Candidate)) []*Candidate { return []*Candidate{candidate(1, change)} }
	retry := func(c *Candidate) { c.RetryTopic = "orders.retry" }
	own := []string{"dead", "life"}
	life := func(c *Candidate) { c.Origin.Topic = "life" }
	runRedrives(t, map[string]redriveCase{
		"a topic that Kafka keeps":          {candidates: one(func(c *Candidate) { c.Origin.Topic = "__consumer_offsets" }), want: "1 skipped reserved_topic"},
		"a retry topic that Kafka keeps":    {candidates: []*Candidate{record(1, func(c *Candidate) { c.RetryTopic = "__x" })}, want: "1 skipped reserved_topic"},
		"a record of Postrider's own topic": {own: own, candidates: []*Candidate{record(1, life)}, want: "1 skipped reserved_topic"},
		"an event of Postrider's own":       {own: own, candidates: one(life), want: "1 new for life"},
		"an event of another source's own": {own: own, candidates: one(func(c *Candidate) {
			life(c)
			c.Source = "orders"
			c.SourceOutboxID, c.OutboxID, c.Episode = c.OutboxID, nil, 1
		}), want: "1 asked of orders for life"},
		"an event that its letter does not name": {candidates: one(func(c *Candidate) { c.Source, c.OutboxID, c.Episode = "orders", nil, 1 }), want: "1 skipped gone"},
		"one that a service wrote there":         {own: own, candidates: one(func(c *Candidate) { life(c); c.Misplaced = true }), want: "1 skipped reserved_topic"},
		"to Postrider's own topic":               {own: own, request: RedriveRequest{Target: "life"}, candidates: []*Candidate{candidate(1)}, want: "1 skipped reserved_topic"},
		"by default to the group that failed":    {candidates: []*Candidate{record(1, retry), record(2)}, want: planLines("1 new for orders.retry", "2 new for orders")},
		"to where it came from":                  {request: RedriveRequest{Target: TargetOrigin}, candidates: []*Candidate{record(1, retry), candidate(2)}, want: planLines("1 new for orders", "2 new for orders")},
		"to its own topic":                       {candidates: []*Candidate{candidate(1)}, want: "1 new for orders"},
		"of a task":                              {candidates: one(func(c *Candidate) { c.Subject, c.Status = SubjectTask, Cancelled }), want: "1 skipped task_subject"},
		"on its way already":                     {candidates: one(func(c *Candidate) { c.UnderWay = true }), want: "1 skipped already_queued"},
		"on its way, and closed by hand":         {candidates: one(func(c *Candidate) { c.UnderWay, c.Status = true, Cancelled }), want: "1 skipped already_queued"},
		"closed":                                 {candidates: one(func(c *Candidate) { c.Status = ManuallyResolved }), want: "1 skipped not_pending"},
		"its letter is not there":                {candidates: one(func(c *Candidate) { c.Letter = "" }), want: "1 skipped payload_gone"},
		"of no topic":                            {candidates: one(func(c *Candidate) { c.Origin.Topic = "" }), want: "1 skipped no_target"},
		"of a topic that cannot be":              {candidates: one(func(c *Candidate) { c.Origin.Topic = "a b" }), want: "1 skipped no_target"},
		"of no topic, with a target":             {request: RedriveRequest{Target: "other"}, candidates: one(func(c *Candidate) { c.Origin.Topic = "" }), want: "1 new for other"},
		"to another topic":                       {request: RedriveRequest{Target: "other"}, candidates: []*Candidate{candidate(1)}, want: "1 new for other"},
		"from where it would go":                 {candidates: one(func(c *Candidate) { c.Origin.Topic = "dead" }), want: "1 skipped dead_letter_topic"},
		"to the group that failed":               {request: RedriveRequest{Target: TargetGroup}, candidates: []*Candidate{record(1, retry)}, want: "1 new for orders.retry"},
		"to a group that has no topic":           {request: RedriveRequest{Target: TargetGroup}, candidates: []*Candidate{candidate(1)}, want: "1 skipped no_retry_topic"},
		"each for itself": {candidates: []*Candidate{candidate(1), candidate(2, func(c *Candidate) { c.Status = Cancelled }), candidate(3)},
			want: planLines("1 new for orders", "2 skipped not_pending", "3 new for orders")},
	})
}

// TestPlanKeepsTheOrder: messages are sent in the order in which they were written, as far as that is known.
func TestPlanKeepsTheOrder(t *testing.T) {
	t.Parallel()
	at := func(topic string, partition int32, offset int64) func(*Candidate) {
		return func(c *Candidate) { c.Origin = Place{topic, partition, offset} }
	}
	unknown := func(partition int32, offset int64) func(*Candidate) {
		return func(c *Candidate) { c.Origin, c.ReadAt = Place{Topic: "b"}, Place{"dead", partition, offset} }
	}
	runRedrives(t, map[string]redriveCase{
		"events by their ids":                   {candidates: []*Candidate{candidate(3), candidate(1), candidate(2)}, want: planLines("1 new for orders", "2 new for orders", "3 new for orders")},
		"records by place":                      {candidates: []*Candidate{record(1, at("b", 1, 5)), record(2, at("b", 0, 9)), record(3, at("a", 7, 7)), record(4, at("b", 1, 4))}, want: planLines("3 new for a", "2 new for b", "4 new for b", "1 new for b")},
		"else by where their letters are":       {candidates: []*Candidate{record(1, unknown(2, 1)), record(2, unknown(1, 8)), record(3, unknown(1, 7))}, want: planLines("3 new for b", "2 new for b", "1 new for b")},
		"else by themselves":                    {candidates: []*Candidate{record(2, unknown(1, 1)), record(1, unknown(1, 1))}, want: planLines("1 new for b", "2 new for b")},
		"a skipped one keeps its place in it":   {candidates: []*Candidate{candidate(2), candidate(1, func(c *Candidate) { c.UnderWay = true })}, want: planLines("1 skipped already_queued", "2 new for orders")},
		"a batch ends where it is large":        {bytes: 3000, candidates: []*Candidate{candidate(1), candidate(2), candidate(3), candidate(4)}, want: planLines("1 new for orders", "2 new for orders", "3 skipped later", "4 skipped later")},
		"the first is in it, however large":     {bytes: 3000, candidates: []*Candidate{candidate(1, func(c *Candidate) { c.Bytes = 1 << 20 }), candidate(2)}, want: planLines("1 new for orders", "2 skipped later")},
		"what is not sent takes no place":       {bytes: 2048, candidates: []*Candidate{candidate(1), candidate(2, func(c *Candidate) { c.UnderWay = true }), candidate(3)}, want: planLines("1 new for orders", "2 skipped already_queued", "3 new for orders")},
		"behind the end nothing is decided":     {bytes: 1024, candidates: []*Candidate{candidate(1), candidate(2), candidate(3, func(c *Candidate) { c.UnderWay = true })}, want: planLines("1 new for orders", "2 skipped later", "3 skipped later")},
		"what is left for later asks no outbox": {bytes: 1024, candidates: []*Candidate{candidate(1), candidate(2)}, halting: []int64{1}, want: planLines("1 in place of 1, episode 1", "2 skipped later")},
	})
}

// TestPlanLooksAtTheOutbox: what a person already redrove there by hand is left alone, and a key lets go only the event
// that halts it, in its place.
func TestPlanLooksAtTheOutbox(t *testing.T) {
	t.Parallel()
	of := func(s EventStanding) map[int64]EventStanding { return map[int64]EventStanding{1: s} }
	one := func() []*Candidate { return []*Candidate{candidate(1)} }
	edit := RedriveRequest{Edit: &Edit{Payload: []byte("x")}}
	runRedrives(t, map[string]redriveCase{
		"is not as its letter says":           {candidates: one(), standings: of(EventStanding{}), want: "1 skipped gone"},
		"its letter names no row":             {candidates: []*Candidate{candidate(1, func(c *Candidate) { c.OutboxID = nil })}, want: "1 skipped gone"},
		"its letter is ahead of it":           {candidates: []*Candidate{candidate(1, func(c *Candidate) { c.Episode = 9 })}, standings: of(EventStanding{"dead_lettered", 1}), halting: []int64{1}, want: "1 in place of 1, episode 1"},
		"given up":                            {candidates: one(), standings: of(EventStanding{"dead_lettered", 1}), want: "1 new for orders"},
		"waits to be sent":                    {candidates: one(), standings: of(EventStanding{"pending", 1}), want: "1 skipped already_queued"},
		"waits behind a hold":                 {candidates: one(), standings: of(EventStanding{"parked", 1}), want: "1 skipped already_queued"},
		"waits for its time":                  {candidates: one(), standings: of(EventStanding{"scheduled", 1}), want: "1 skipped already_queued"},
		"has arrived":                         {candidates: one(), standings: of(EventStanding{"published", 1}), want: "1 skipped delivered"},
		"has arrived, and is changed":         {request: edit, candidates: one(), standings: of(EventStanding{"published", 1}), want: "1 new for orders"},
		"has arrived, and goes elsewhere":     {request: RedriveRequest{Target: "other"}, candidates: one(), standings: of(EventStanding{"published", 1}), want: "1 new for other"},
		"halts its key":                       {candidates: one(), halting: []int64{1}, want: "1 in place of 1, episode 1"},
		"was given up again meanwhile":        {candidates: one(), standings: of(EventStanding{"dead_lettered", 3}), halting: []int64{1}, want: "1 in place of 1, episode 3"},
		"halts its key, and is to go away":    {request: RedriveRequest{Target: "other"}, candidates: one(), halting: []int64{1}, want: "1 skipped halts_key"},
		"behind another of its key":           {candidates: one(), behind: []int64{1}, want: "1 skipped key_halted"},
		"behind another, and it goes away":    {request: RedriveRequest{Target: "other"}, candidates: one(), behind: []int64{1}, want: "1 new for other"},
		"one halts, one waits, one is free":   {candidates: []*Candidate{candidate(1), candidate(2), candidate(3)}, halting: []int64{1}, behind: []int64{2}, want: planLines("1 in place of 1, episode 1", "2 skipped key_halted", "3 new for orders")},
		"a record has no place in the outbox": {candidates: []*Candidate{record(1)}, standings: of(EventStanding{"published", 1}), want: "1 new for orders"},
	})
}

// TestPlanKeepsRecordsWithTheirSource: a record of a source goes to the topics of that alone, whatever its letter and the request
// name. The retry topics of a group belong with the topic that it reads.
func TestPlanKeepsRecordsWithTheirSource(t *testing.T) {
	t.Parallel()
	owners := func(topic string) (all []string) {
		for source, prefix := range map[string]string{"shop": "orders", "bank": "bills"} {
			if strings.HasPrefix(topic, prefix) && !strings.Contains(topic, ".retry") {
				all = append(all, source)
			}
		}
		return all
	}
	of := func(source, origin string, change ...func(*Candidate)) []*Candidate {
		return []*Candidate{record(1, append(change, func(c *Candidate) { c.Source, c.Origin.Topic = source, origin })...)}
	}
	retry := func(topic string) func(*Candidate) { return func(c *Candidate) { c.RetryTopic = topic } }
	to := func(topic string) RedriveRequest { return RedriveRequest{Target: topic} }
	const refused = "1 skipped topic_not_allowed"
	runRedrives(t, map[string]redriveCase{
		"to its origin":                     {owners: owners, candidates: of("shop", "orders"), want: "1 new for orders"},
		"to its group":                      {owners: owners, candidates: of("shop", "orders", retry("orders.billing.retry")), want: "1 new for orders.billing.retry"},
		"to a tier of its group":            {owners: owners, candidates: of("shop", "orders", retry("orders.billing.retry.1s")), want: "1 new for orders.billing.retry.1s"},
		"to a group of another topic":       {owners: owners, candidates: of("shop", "orders", retry("bills.billing.retry")), want: refused},
		"to another topic of its source":    {owners: owners, request: to("orders.eu"), candidates: of("shop", "orders"), want: "1 new for orders.eu"},
		"its letter names another's origin": {owners: owners, candidates: of("shop", "bills"), want: refused},
		"to another source's topic":         {owners: owners, request: to("bills"), candidates: of("shop", "orders"), want: refused},
		"to a topic of main":                {owners: owners, request: to("other"), candidates: of("shop", "orders"), want: refused},
		"of main":                           {owners: owners, candidates: of(MainSource, "other"), want: "1 new for other"},
		"of main, for another source":       {owners: owners, candidates: of(MainSource, "other", retry("bills")), want: refused},
		"of main, to another source":        {owners: owners, request: to("bills"), candidates: of(MainSource, "other"), want: refused},
		"of main, of a topic that was":      {owners: owners, candidates: of(MainSource, "orders"), want: "1 new for orders"},
		"where no owners are known":         {candidates: of("shop", "bills"), want: "1 new for bills"},
		"an event":                          {owners: owners, candidates: []*Candidate{candidate(1)}, want: "1 new for orders"},
	})
}

// TestPlanKeepsEventsWithTheirSource: an event of a source is not sent to a topic that its source may not write to, which would give
// it up again. Of a source that the settings do not name, that is not known.
func TestPlanKeepsEventsWithTheirSource(t *testing.T) {
	t.Parallel()
	owners := func(topic string) []string {
		return map[string][]string{"orders": {"shop"}, "orders.eu": {"shop"}, "bills": {"bank"}}[topic]
	}
	named := func(source string) bool { return source == "shop" }
	of := func(source, origin string, change ...func(*Candidate)) []*Candidate {
		return []*Candidate{candidate(1, append(change, func(c *Candidate) {
			c.Source, c.Origin.Topic, c.SourceOutboxID, c.OutboxID = source, origin, c.OutboxID, nil
		})...)}
	}
	to := func(topic string) RedriveRequest { return RedriveRequest{Target: topic} }
	notAllowed := func(c *Candidate) { c.NotAllowed = true }
	const refused = "1 skipped topic_not_allowed"
	cases := map[string]redriveCase{
		"to its origin":                  {candidates: of("shop", "orders"), want: "1 asked of shop for orders"},
		"to another topic of its source": {request: to("orders.eu"), candidates: of("shop", "orders"), want: "1 asked of shop for orders.eu"},
		"to another source's topic":      {request: to("bills"), candidates: of("shop", "orders"), want: refused},
		"to a topic of main":             {request: to("other"), candidates: of("shop", "orders"), want: refused},
		"to where it may not go":         {candidates: of("shop", "bills", notAllowed), want: refused},
		"to where it may go now":         {candidates: of("shop", "orders", notAllowed), want: "1 asked of shop for orders"},
		"of a task, to its origin":       {candidates: of("shop", "steps"), want: "1 asked of shop for steps"},
		"of a source without settings":   {request: to("other"), candidates: of("bank", "bills"), want: "1 asked of bank for other"},
	}
	for name, c := range cases {
		c.owners, c.named = owners, named
		cases[name] = c
	}
	runRedrives(t, cases)
}

// TestPlanOfHops: a message that came back dead each time is left alone in the end. Its own place is no hop.
func TestPlanOfHops(t *testing.T) {
	t.Parallel()
	after := func(hops int) []*Candidate { return []*Candidate{candidate(1, func(c *Candidate) { c.Hops = hops })} }
	runRedrives(t, map[string]redriveCase{
		"one is left":             {candidates: after(DefaultMaxHops - 1), want: "1 new for orders"},
		"none is left":            {candidates: after(DefaultMaxHops), want: "1 skipped too_many_hops"},
		"more were allowed":       {request: RedriveRequest{MaxHops: DefaultMaxHops + 1}, candidates: after(DefaultMaxHops), want: "1 new for orders"},
		"fewer were allowed":      {request: RedriveRequest{MaxHops: 1}, candidates: after(1), want: "1 skipped too_many_hops"},
		"in its place it is none": {candidates: after(DefaultMaxHops), halting: []int64{1}, want: "1 in place of 1, episode 1"},
	})
}

// TestPlanOfHeaders: a message with headers that cannot be read is sent as the request says, or not at all. All others
// keep theirs, unless an edit gives some.
func TestPlanOfHeaders(t *testing.T) {
	t.Parallel()
	given := []message.Header{{Name: "a", Value: []byte("1")}}
	readable := func(c *Candidate) { c.Unreadable, c.Readable = true, []message.Header{{Name: "b", Value: []byte("2")}} }
	referred := func(c *Candidate) { c.Unreadable = true }
	none := func(c *Candidate) { c.Unreadable, c.Readable = true, []message.Header{} }
	repair := RedriveRequest{Repair: &Repair{Headers: given}}
	bare := RedriveRequest{Repair: &Repair{None: true}}
	one := func(change ...func(*Candidate)) []*Candidate { return []*Candidate{candidate(1, change...)} }
	const skipped = "1 skipped unreadable_headers"
	runRedrives(t, map[string]redriveCase{
		"readable ones stay":                  {request: repair, candidates: one(), want: "1 new for orders"},
		"nothing was said":                    {candidates: one(readable), want: skipped},
		"given, with the readable ones":       {request: repair, candidates: one(readable), want: "1 new for orders with headers b=2 a=1"},
		"given, and none can be read":         {request: repair, candidates: one(none), want: "1 new for orders with headers a=1"},
		"given, but the others are elsewhere": {request: repair, candidates: one(referred), want: skipped},
		"without any":                         {request: bare, candidates: one(readable), want: "1 new for orders with headers"},
		"without any, wherever they are":      {request: bare, candidates: one(referred), want: "1 new for orders with headers"},
		"an edit of the payload":              {request: RedriveRequest{Edit: &Edit{Tombstone: true}}, candidates: one(readable), want: skipped},
		"an edit of headers":                  {request: RedriveRequest{Edit: &Edit{Headers: given}}, candidates: one(referred), want: "1 new for orders with headers a=1"},
		"an edit of readable ones":            {request: RedriveRequest{Edit: &Edit{Headers: given}}, candidates: one(), want: "1 new for orders with headers a=1"},
		"changed in its place":                {request: repair, candidates: one(readable), halting: []int64{1}, want: "1 in place of 1, episode 1 with headers b=2 a=1"},
		"a repair is a change":                {request: bare, candidates: one(readable), standings: map[int64]EventStanding{1: {"published", 1}}, want: "1 new for orders with headers"},
	})
}

// TestPlanRefusesItsOwnDeadLetters: a person is told that the target is where the message came from. No person chose the
// topic that a message was bound for.
func TestPlanRefusesItsOwnDeadLetters(t *testing.T) {
	t.Parallel()
	back := func(c *Candidate) { c.Origin.Topic = "dead" }
	err := PlanRedrive(RedriveRequest{Target: "dead"}, nil, nil, nil, []*Candidate{candidate(1, func(c *Candidate) { c.ReadAt.Topic = "other" }), candidate(2)}).Refusal()
	if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), planID(2).String()) {
		t.Errorf("to where it came from: %v", err)
	}
	err = PlanRedrive(RedriveRequest{Target: "life"}, []string{"life"}, nil, nil, []*Candidate{candidate(1)}).Refusal()
	if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "Postrider itself writes") {
		t.Errorf("to Postrider's own topic: %v", err)
	}
	for name, p := range map[string]*RedrivePlan{
		"to another topic":    PlanRedrive(RedriveRequest{Target: "other"}, nil, nil, nil, []*Candidate{candidate(1)}),
		"bound for it":        PlanRedrive(RedriveRequest{}, nil, nil, nil, []*Candidate{candidate(1, back)}),
		"closed":              PlanRedrive(RedriveRequest{Target: "dead"}, nil, nil, nil, []*Candidate{candidate(1, func(c *Candidate) { c.Status = Cancelled })}),
		"a group's own topic": PlanRedrive(RedriveRequest{Target: TargetGroup}, nil, nil, nil, []*Candidate{record(1, func(c *Candidate) { c.RetryTopic = "dead" })}),
	} {
		if err := p.Refusal(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOutcomeOfARedrive: what became of it is what its event says, compared with when it began.
func TestOutcomeOfARedrive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s       EventStanding
		episode int32
		want    RedriveState
	}{
		{EventStanding{}, 0, eventGone},
		{EventStanding{"pending", 0}, 0, Queued},
		{EventStanding{"parked", 0}, 0, Queued},
		{EventStanding{"exhausted", 0}, 0, Queued},
		{EventStanding{"published", 0}, 0, Delivered},
		{EventStanding{"dead_lettered", 1}, 0, CameBack},
		{EventStanding{"published", 1}, 0, CameBack}, // a person sent it again by hand
		{EventStanding{"published", 1}, 1, Delivered},
		{EventStanding{"dead_lettered", 1}, 1, Queued}, // in its place, where it was when it began
		{EventStanding{"dead_lettered", 2}, 1, CameBack},
	} {
		if got := c.s.OutcomeOf(c.episode); got != c.want {
			t.Errorf("%+v after episode %d: %s, want %s", c.s, c.episode, got, c.want)
		}
	}
	for s, want := range map[EventStanding]bool{{"dead_lettered", 1}: true, {"exhausted", 1}: true, {"dead_lettered", 2}: false, {"parked", 1}: false,
		{"scheduled", 1}: false, {"published", 1}: false, {}: false} {
		if s.Undone(1) != want || s.Undone(0) {
			t.Errorf("%+v is undone: %v, want %v", s, s.Undone(1), want)
		}
	}
}

// TestCountsOfEndedRedrives: a message that a consumer group gave up again came back, even though its topic took it.
func TestCountsOfEndedRedrives(t *testing.T) {
	t.Parallel()
	one, two := planID(1), planID(2)
	ended := []EndedRedrive{
		{planID(11), "d", &one, Delivered}, {planID(12), "c", &one, CameBack}, {planID(13), "b", nil, Delivered},
		{planID(14), "a", &two, Delivered}, {planID(15), "e", &two, Delivered},
	}
	again := map[string]bool{"a": true, "e": false}
	all, byOperation := CountEnded(ended, again)
	if all != (Followed{Delivered: 2, CameBack: 3}) || len(byOperation) != 2 ||
		byOperation[one] != (Followed{Delivered: 1, CameBack: 1}) || byOperation[two] != (Followed{CameBack: 2}) {
		t.Errorf("%+v, by operation %+v", all, byOperation)
	}
	ids := func(es []EndedRedrive) (s string) {
		for _, e := range es {
			s += e.Redrive
		}
		return s
	}
	// Closed are the investigations of what arrived: "a" died again in the same one, "e" opened another.
	if got := ids(ArrivedOf(ended, again)); got != "bde" {
		t.Errorf("arrived: %s", got)
	}
	if got := ids(ArrivedOf(ended, nil)); got != "abde" {
		t.Errorf("taken by their topics: %s", got)
	}
	if got := ids(ended); got != "dcbae" {
		t.Errorf("the order given became %s", got)
	}
}

// TestCameFrom: a letter names its redrive by its event, which a record cannot, and by a header that can be stored.
func TestCameFrom(t *testing.T) {
	t.Parallel()
	id := planID(7)
	with := func(s SubjectType, value string) *Letter {
		return &Letter{Subject: Subject{Type: s}, EventID: id, Headers: []message.Header{{Name: "x"}, {Name: HeaderReplayID, Value: []byte(value)}}}
	}
	for name, c := range map[string]struct {
		l       *Letter
		event   uuid.UUID
		redrive string
	}{
		"an event":               {with(SubjectEvent, "e:1"), id, "e:1"},
		"a record":               {with(SubjectRecord, "e:1"), uuid.Nil, "e:1"},
		"no header":              {&Letter{Subject: Subject{Type: SubjectEvent}, EventID: id}, id, ""},
		"one that is too long":   {with(SubjectEvent, strings.Repeat("x", maxRedriveID+1)), id, ""},
		"one that is not UTF-8":  {with(SubjectEvent, "\xff"), id, ""},
		"one with a NUL":         {with(SubjectEvent, "a\x00"), id, ""},
		"the longest that it is": {with(SubjectRecord, strings.Repeat("x", maxRedriveID)), uuid.Nil, strings.Repeat("x", maxRedriveID)},
	} {
		if event, redrive := c.l.CameFrom(); event != c.event || redrive != c.redrive {
			t.Errorf("%s: %v, %q", name, event, redrive)
		}
	}
}
