package stage

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/consumer"
	"github.com/postrider/postrider/internal/testenv/pgtest"
	"github.com/postrider/postrider/message"
)

// Shop is a service in some language that writes orders and ships them. Its programs take the arguments and variables that
// the README of each says. [RunShop] tests it.
type Shop struct {
	// Writers are programs that place orders. Most orders are placed by the first.
	Writers []Writer
	// Consumer ships orders.
	Consumer []string
	// Traps tries what is refused; Refused is the SQLSTATE of each try, or "ok".
	Traps   []string
	Refused map[string]string
}

// Writer is a program that places orders, with its first arguments.
type Writer struct {
	With    string // what it writes with, such as JDBC
	Program []string
}

// shopRun is a shop beside Postrider.
type shopRun struct {
	*testing.T
	*Stage
	shop         Shop
	own          *pgxpool.Pool // the database of the service that ships
	topic, group string
	shipped      map[string]int // what must have been shipped of each article
	orders       int
}

// RunShop runs a service beside Postrider: orders are written and shipped once each, whatever is delivered twice; what fails
// goes through the retry topics and becomes a dead letter as the library of this module would have it, and a person
// redrives it.
func RunShop(t *testing.T, shop Shop) {
	s := New(t)
	own := pgtest.NewEmpty(t)
	r := &shopRun{T: t, Stage: s, shop: shop, own: own.Pool(t), topic: s.Broker.Topic(t, 2, nil), shipped: map[string]int{}}
	r.group = "shop-" + r.topic[len(r.topic)-12:] // the broker may be others', too
	r.traps()
	s.Serve()
	if _, err := r.own.Exec(t.Context(), s.Postrider("inbox", "schema")); err != nil {
		t.Fatal(err)
	}
	p := s.Start(shop.Consumer[0], []string{"DATABASE_URL=" + own.URL, "KAFKA_BROKERS=" + s.Brokers(), "TOPIC=" + r.topic, "GROUP=" + r.group, "DLQ_TOPIC=" + s.DLQ, "RETRY_DELAYS=300ms,30s,1h"},
		shop.Consumer[1:]...)
	Eventually(t, "the table of the service", r.own, "true", `select (to_regclass('shop_article') is not null)::text`)
	r.know("door")

	r.written()
	r.waits()
	r.triedAgain()
	r.odd()
	given := r.givenUp()
	r.redriven(given)
	r.copies()
	p.Stop()
	r.all("in the end")
	// The message that waits for an hour is still its topic's.
	if behind, err := lag(t.Context(), s.Broker.Admin(t), r.group, []string{consumer.RetryTopic(r.topic, r.group, time.Hour)}); err != nil || behind < 1 {
		t.Errorf("%d records of the retry topic are not committed, %v; one is not due", behind, err)
	}
}

// traps compares what is refused with what the documentation says.
func (r *shopRun) traps() {
	r.Helper()
	r.Stage.Postrider("migrate", "roles", "--apply")
	writer, _ := r.DB.Login(r.T, "postrider_writer")
	var said map[string]string
	out := r.Output([]string{"DATABASE_URL=" + writer}, r.shop.Traps[0], r.shop.Traps[1:]...)
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		r.Fatalf("%v: %s", err, out)
	}
	if !maps.Equal(said, r.shop.Refused) {
		r.Errorf("the tries end with %q, want %q", said, r.shop.Refused)
	}
}

// know puts an article in.
func (r *shopRun) know(article string) {
	r.Helper()
	if _, err := r.own.Exec(r.Context(), `insert into shop_article (article) values ($1)`, article); err != nil {
		r.Fatal(err)
	}
}

// all waits until everything is shipped that must be, and no more.
func (r *shopRun) all(what string) {
	r.Helper()
	var want []string
	for _, article := range slices.Sorted(maps.Keys(r.shipped)) {
		want = append(want, fmt.Sprint(article, " ", r.shipped[article]))
	}
	Eventually(r.T, what+": what is shipped", r.own, strings.Join(want, ", "), `select coalesce(string_agg(concat_ws(' ', article, shipped), ', ' order by article), '') from shop_article where shipped > 0`)
}

// place writes an order, and returns the id of its event.
func (r *shopRun) place(w Writer, details string, more ...string) (event string) {
	r.Helper()
	r.orders++
	args := append(append(slices.Clone(w.Program[1:]), r.topic, fmt.Sprint("o-", r.orders), details), more...)
	out := r.Output([]string{"DATABASE_URL=" + r.DB.URL}, w.Program[0], args...)
	var said struct {
		EventID string `json:"event_id"`
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || said.EventID == "" {
		r.Fatalf("%s: %v: %s", w.With, err, out)
	}
	return said.EventID
}

// written has every writer place an order, and fail to place another.
func (r *shopRun) written() {
	r.Helper()
	const details = `{"article": "door", "note": "Tür"}`
	ids := map[string]string{} // the event of each order
	for _, w := range r.shop.Writers {
		id := r.place(w, details, "--header", "n=1", "--header", "n=2", "--header", "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		ids[fmt.Sprint("o-", r.orders)] = id
		r.shipped["door"]++
		failing := r.Start(w.Program[0], []string{"DATABASE_URL=" + r.DB.URL}, append(slices.Clone(w.Program[1:]), r.topic, "o-fails", details, "--fail")...)
		<-failing.ended
		if failing.err == nil || !strings.Contains(failing.Log(), "told to fail") {
			r.Errorf("%s: the order that was to fail: %v", w.With, failing.err)
		}
	}
	var counts string
	if err := r.Pool.QueryRow(r.Context(), `select concat_ws(' ', (select count(*) from shop_order), (select count(*) from postrider.outbox_event where topic = $1))`, r.topic).Scan(&counts); err != nil ||
		counts != fmt.Sprint(len(ids), " ", len(ids)) {
		r.Errorf("orders and events: %s, %v; want %d of each", counts, err, len(ids))
	}
	for _, rec := range r.Broker.ReadAll(r.T, r.topic, len(ids)) {
		var value map[string]string
		if err := json.Unmarshal(rec.Value, &value); err != nil || value["note"] != "Tür" {
			r.Errorf("%s: %s, %v", rec.Key, rec.Value, err)
		}
		var names []string
		for _, h := range rec.Headers {
			names = append(names, h.Key+"="+string(h.Value))
		}
		if want := []string{"n=1", "n=2", "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", message.HeaderEventID + "=" + ids[string(rec.Key)]}; !slices.Equal(names, want) {
			r.Errorf("%s has the headers %q, want %q", rec.Key, names, want)
		}
	}
	r.all("what was written")
}

// waits puts a message into a retry topic that is due in an hour. It must keep back nothing but its partition.
func (r *shopRun) waits() {
	r.Helper()
	r.retry(consumer.RetryTopic(r.topic, r.group, time.Hour), "waits", `{"article": "door"}`, 3, time.Now().Add(time.Hour))
	r.place(r.shop.Writers[0], `{"article": "door"}`)
	r.shipped["door"]++
	r.all("beside a message that is not due")
}

// retry writes a message to a retry topic of the group, with the headers that the library of this module writes there.
func (r *shopRun) retry(topic, event, value string, failed int, due time.Time) {
	r.Helper()
	rec := &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(value)}
	at := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano)
	for _, h := range [][2]string{{"own", "kept"}, {message.HeaderEventID, event}, {message.HeaderConsumerGroup, r.group}, {message.HeaderOriginTopic, r.topic},
		{message.HeaderOriginPartition, "1"}, {message.HeaderOriginOffset, "77"}, {message.HeaderOriginTimestamp, "2026-01-31T09:00:00.123Z"}, {message.HeaderOriginTimestampType, "LogAppendTime"},
		{message.HeaderAttempts, fmt.Sprint(failed)}, {message.HeaderFirstFailedAt, at}, {message.HeaderLastFailedAt, at},
		{message.HeaderErrorClass, "record"}, {message.HeaderErrorCode, "X"}, {consumer.HeaderRetryDue, due.UTC().Format(time.RFC3339Nano)}} {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	if err := r.client().ProduceSync(r.Context(), rec).FirstErr(); err != nil {
		r.Fatal(err)
	}
}

// client does not compress, as Postrider does not unless it is told to: not every client knows every codec.
func (r *shopRun) client() *kgo.Client {
	r.Helper()
	return r.Broker.Client(r.T, kgo.ProducerBatchCompression(kgo.NoCompression()))
}

// triedAgain places an order of an article that becomes known after the first attempt, or the second on a busy machine.
func (r *shopRun) triedAgain() {
	r.Helper()
	event := r.place(r.shop.Writers[0], `{"article": "lamp"}`)
	tier := consumer.RetryTopic(r.topic, r.group, 300*time.Millisecond)
	rec := r.Broker.ReadAll(r.T, tier, 1)[0]
	r.know("lamp")
	r.shipped["lamp"]++
	r.all("an order that was tried again")
	hs := r.headers(rec, map[string]string{message.HeaderEventID: event, message.HeaderConsumerGroup: r.group, message.HeaderOriginTopic: r.topic,
		message.HeaderAttempts: "1", message.HeaderErrorClass: "record", message.HeaderErrorCode: "UNKNOWN_ARTICLE"})
	due, err := time.Parse(time.RFC3339Nano, hs[consumer.HeaderRetryDue])
	if err != nil {
		r.Error(err)
	}
	var handled time.Time
	if err := r.own.QueryRow(r.Context(), `select handled_at from inbox_message where consumer_group = $1 and message_id = $2`, r.group, "event:"+event).Scan(&handled); err != nil || handled.Before(due) {
		r.Errorf("handled at %v, %v; it is due at %v", handled, err, due)
	}
}

// odd sends what a program that is not ours may have written to a retry topic: notes of this group whose origin is not
// whole, with no event id, and an identity that is none. Each message is known by its own place, and shipped.
func (r *shopRun) odd() {
	r.Helper()
	for _, partition := range []string{"", "x"} {
		rec := &kgo.Record{Topic: consumer.RetryTopic(r.topic, r.group, 300*time.Millisecond), Key: []byte("k"), Value: []byte(`{"article": "door"}`)}
		for _, h := range [][2]string{{message.HeaderConsumerGroup, r.group}, {message.HeaderAttempts, "1"}, {message.HeaderOriginPartition, partition}, {message.HeaderRedriveOf, "event:none"}} {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
		}
		if err := r.client().ProduceSync(r.Context(), rec).FirstErr(); err != nil {
			r.Fatal(err)
		}
		r.shipped["door"]++
	}
	r.all("messages whose origin is not whole")
}

// headers compares some headers of a record, whose own names must be there once, and returns all.
func (r *shopRun) headers(rec *kgo.Record, want map[string]string) map[string]string {
	r.Helper()
	all := map[string]string{}
	for _, h := range rec.Headers {
		if _, twice := all[h.Key]; twice && message.Reserved(h.Key) {
			r.Errorf("the header %s is there twice", h.Key)
		}
		all[h.Key] = string(h.Value)
	}
	for name, value := range want {
		if all[name] != value {
			r.Errorf("a record of %s has %s %q, want %q", rec.Topic, name, all[name], value)
		}
	}
	return all
}

// givenUp has one message fail for the last time, in a retry topic, and another for good at once. It returns the
// investigation of the first.
func (r *shopRun) givenUp() (entry string) {
	r.Helper()
	const event = "5f0e3f5c-0000-4000-8000-000000000001"
	tier := consumer.RetryTopic(r.topic, r.group, 300*time.Millisecond)
	r.retry(tier, event, `{"article": "vase"}`, 3, time.Now())
	broken := r.place(r.shop.Writers[0], `{"article": 7}`)
	letters := map[string]*kgo.Record{}
	for _, rec := range r.Broker.ReadAll(r.T, r.DLQ, 2) {
		letters[r.headers(rec, nil)[message.HeaderErrorCode]] = rec
	}
	if letters["UNKNOWN_ARTICLE"] == nil || letters["NO_ARTICLE"] == nil {
		r.Fatalf("the dead letters are %v", slices.Collect(maps.Keys(letters)))
	}
	hs := r.headers(letters["UNKNOWN_ARTICLE"], map[string]string{"own": "kept", message.HeaderEventID: event, message.HeaderLetterVersion: "1", message.HeaderConsumerGroup: r.group,
		message.HeaderOriginTopic: r.topic, message.HeaderOriginPartition: "1", message.HeaderOriginOffset: "77", message.HeaderOriginTimestampType: "LogAppendTime", message.HeaderAttempts: "4", message.HeaderErrorClass: "record",
		message.HeaderLastTopic: tier, message.HeaderRetryTopic: consumer.RetryTopic(r.topic, r.group, 0)})
	if at, err := time.Parse(time.RFC3339Nano, hs[message.HeaderOriginTimestamp]); err != nil || at.UnixMilli() != 1769850000123 || hs[consumer.HeaderRetryDue] != "" {
		r.Errorf("the dead letter has the headers %q", hs)
	}
	if first, last := hs[message.HeaderFirstFailedAt], hs[message.HeaderLastFailedAt]; !(first < last) {
		r.Errorf("failed first at %s, last at %s", first, last)
	}
	r.headers(letters["NO_ARTICLE"], map[string]string{message.HeaderEventID: broken, message.HeaderAttempts: "1", message.HeaderErrorClass: "permanent", message.HeaderOriginTopic: r.topic, message.HeaderLastTopic: ""})

	Eventually(r.T, "investigations", r.Pool, "2", `select count(*)::text from postrider.dlq_entry`)
	var list struct {
		Items []struct {
			UUID      string `json:"dlq_entry_uuid"`
			SubjectID string `json:"subject_id"`
		}
	}
	out := r.Stage.Postrider("dlq", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		r.Fatalf("%v: %s", err, out)
	}
	for _, e := range list.Items {
		if e.SubjectID == r.topic+"/1/77@1769850000123#"+r.group { // the record, and the group that gave it up
			return e.UUID
		}
	}
	r.Fatalf("no investigation of the record: %s", out)
	return ""
}

// redriven has a person put the article in and send the message again: to this group, which ships it.
func (r *shopRun) redriven(entry string) {
	r.Helper()
	r.know("vase")
	r.Stage.Postrider("dlq", "requeue", entry)
	r.shipped["vase"]++
	r.all("the order that was redriven")
	Eventually(r.T, "the investigation", r.Pool, "manually_resolved", `select resolution_status::text from postrider.dlq_entry where dlq_entry_uuid = $1::uuid`, entry)
}

// copies sends every record of the topic and of the group's redrives once more.
func (r *shopRun) copies() {
	r.Helper()
	client := r.client()
	topics := []string{r.topic, consumer.RetryTopic(r.topic, r.group, 0)}
	for _, topic := range topics {
		for _, rec := range r.Broker.ReadAll(r.T, topic, 1) {
			client.Produce(r.Context(), &kgo.Record{Topic: topic, Key: rec.Key, Value: rec.Value, Headers: rec.Headers}, nil)
		}
	}
	if err := client.Flush(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.CaughtUp(r.group, topics...)
	r.all("after copies of everything")
}
