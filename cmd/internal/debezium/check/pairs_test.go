package check

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/cmd/internal/adopt"
)

// joining is a join whose differences are kept, as texts.
func joining(d adopt.Definition) (p *pairs, found *[]string) {
	found = &[]string{}
	p = newPairs(Follow{Shadow: adopt.Forward{Prefix: "s.", Definition: d, Since: time.Now()}, Wait: time.Minute, Found: func(d Difference) {
		text := d.ID
		for _, part := range d.Parts {
			text += fmt.Sprintf(" %s: %s | %s", part.Part, part.Theirs, part.Ours)
		}
		*found = append(*found, text)
	}})
	return p, found
}

func recordOf(of side, key, value string) *kgo.Record {
	return &kgo.Record{Topic: []string{"t", "s.t"}[of], Key: []byte(key), Value: []byte(value)}
}

// left fails where something is kept of records that are done.
func (p *pairs) left(t interface{ Errorf(string, ...any) }) {
	bytes := 0
	for of := range p.flows {
		for _, f := range p.flows[of] {
			bytes += f.bytes
		}
	}
	if len(p.byID) != 0 || len(p.byKey[0]) != 0 || len(p.byKey[1]) != 0 || bytes != 0 || p.arrived[0].Len() != 0 || p.arrived[1].Len() != 0 {
		t.Errorf("something is left: %d ids, %v, %d bytes", len(p.byID), p.byKey, bytes)
	}
}

// TestPairs: records that are the same or differ, copies, records without a pair, and records whose pair comes too late.
func TestPairs(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(time.Hour)
	p, found := joining(adopt.Definition{Partition: "p", Timestamp: "at"})
	at := func(of side, id, key, value string, second int) {
		p.add(of, recordOf(of, key, value), id, false, start.Add(time.Duration(second)*time.Second))
	}
	at(theirs, "same", "k", "v", 0)
	at(ours, "same", "k", "v", 1)
	at(ours, "value", "k", `{"a": 2.50}`, 1)
	at(theirs, "value", "k", `{"a": 2.5}`, 2)
	at(ours, "place", "k", "v", 2)
	other := recordOf(theirs, "k", "v")
	other.Partition, other.Timestamp = 2, start
	p.add(theirs, other, "place", false, start)
	at(theirs, "same", "k", "v", 3)  // copies, of what was compared and of what waits
	at(theirs, "alone", "k", "v", 4) // has no pair in time
	at(theirs, "alone", "k", "v", 4)
	p.add(ours, recordOf(ours, "k", "v"), "early", true, start)
	if n := p.progress(); n.Waiting != [2]int{0, 1} || !n.Since[ours].Equal(start.Add(4*time.Second)) || !strings.Contains(n.String(), "; not yet by Postrider 1, since ") {
		t.Errorf("%+v, %s", n, n)
	}
	p.expire(start.Add(63 * time.Second))
	if got := p.progress().Missing; got != 0 {
		t.Errorf("%d are missing before their time", got)
	}
	p.expire(start.Add(64 * time.Second))
	at(ours, "alone", "k", "v", 70)
	at(ours, "alone", "k", "v", 70)
	want := []string{`value value: {"a": 2.5} | {"a": 2.50}`, "place partition: 2 | 0 timestamp: " + stamp(start) + " | " + stamp(time.Time{}),
		"alone record: there | none after 1m0s"}
	if !slices.Equal(*found, want) {
		t.Errorf("found %q\nwant  %q", *found, want)
	}
	if n := p.progress(); !reflect.DeepEqual(n, Progress{Compared: 3, Differing: 2, Missing: 1, Late: 1, Copies: 3}) || n.Same() {
		t.Errorf("%+v", n)
	}
	p.left(t)
	p, found = joining(adopt.Definition{}) // without a column for them each side chooses its own
	at(theirs, "chosen", "k", "v", 0)
	elsewhere := recordOf(ours, "k", "v")
	elsewhere.Partition, elsewhere.Timestamp = 7, start
	p.add(ours, elsewhere, "chosen", false, start)
	if len(*found) > 0 || !p.progress().Same() {
		t.Errorf("%q", *found)
	}
}

// TestIDsOfOtherTopics: tables may have the same ids. Records of two topics are neither a pair nor copies.
func TestIDsOfOtherTopics(t *testing.T) {
	t.Parallel()
	p, found := joining(adopt.Definition{})
	for of := range 2 {
		for _, topic := range []string{"t", "u"} {
			r := recordOf(side(of), "k", "of "+topic)
			r.Topic = p.topic(side(of), topic)
			p.add(side(of), r, "1", false, p.began)
		}
	}
	if n := p.progress(); !reflect.DeepEqual(n, Progress{Compared: 2}) || len(*found) > 0 {
		t.Errorf("%+v, %q", n, *found)
	}
	p.left(t)
}

// TestRowsBeforeTheShadow: what the connector sends late of rows that are older than the shadow is no difference; what comes
// behind a pair of its partition is one, and so is what comes when the time for it is over.
func TestRowsBeforeTheShadow(t *testing.T) {
	t.Parallel()
	p, found := joining(adopt.Definition{})
	send := func(offset int64, partition int32, pair bool, second int) {
		id := fmt.Sprint(partition, "/", offset)
		r := recordOf(theirs, id, "v")
		r.Offset, r.Partition = offset, partition
		p.add(theirs, r, id, false, p.began.Add(time.Duration(second)*time.Second))
		if pair {
			p.add(ours, recordOf(ours, id, "v"), id, false, p.began)
		}
	}
	send(10, 0, false, 1)
	send(12, 0, true, 2)
	send(11, 0, false, 3)
	send(13, 0, false, 4)
	send(1, 1, false, 5)
	send(2, 1, false, 60)
	p.expire(p.began.Add(time.Hour))
	if want := []string{"0/13 record: there | none after 1m0s", "1/2 record: there | none after 1m0s"}; !slices.Equal(*found, want) {
		t.Errorf("found %q, want %q", *found, want)
	}
	p.left(t)
	// A comparison of a shadow that is old begins behind it.
	p, found = joining(adopt.Definition{})
	now := p.began
	p.began = newPairs(Follow{Shadow: adopt.Forward{Since: now.Add(-time.Hour)}}).began
	p.add(theirs, recordOf(theirs, "k", "v"), "old", false, now)
	p.expire(now.Add(time.Hour))
	if len(*found) != 1 {
		t.Errorf("an old shadow: found %q", *found)
	}
}

// TestOrderOfPairs: of the records of a key each is reported that a record of an earlier pair is on the other side of, and no
// other, however the two topics are read; records without a key have no order.
func TestOrderOfPairs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "records")
		keys := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ""}), n, n).Draw(t, "keys")
		ids := make([]int, n)
		for i := range ids {
			ids[i] = i
		}
		topics := [2][]int{rapid.Permutation(ids).Draw(t, "theirs"), rapid.Permutation(ids).Draw(t, "ours")}
		read := rapid.Permutation(slices.Concat(make([]int, n), slices.Repeat([]int{1}, n))).Draw(t, "read")
		p, found := joining(adopt.Definition{})
		var next [2]int
		complete := make([]int, n) // when the second of a pair was read
		for when, of := range read {
			i := topics[of][next[of]]
			next[of]++
			complete[i] = when
			r := recordOf(side(of), keys[i], "v")
			if keys[i] == "" {
				r.Key = nil
			}
			p.add(side(of), r, fmt.Sprint(i), false, time.Now())
		}
		place := func(of, i int) int { return slices.Index(topics[of], i) }
		var want, got []string
		for i := range n {
			if slices.ContainsFunc(ids, func(j int) bool {
				return keys[i] != "" && keys[j] == keys[i] && complete[j] < complete[i] && (place(0, i) < place(0, j)) != (place(1, i) < place(1, j))
			}) {
				want = append(want, fmt.Sprint(i))
			}
		}
		for _, text := range *found {
			var i, j, k int
			var theirs, ours string
			if _, err := fmt.Sscanf(text, "%d order of the key: %s %d | %s %d", &i, &theirs, &j, &ours, &k); err != nil || j != k {
				t.Fatalf("found %q", text)
			}
			if before := place(0, i) < place(0, j); before != (theirs == "before") || before != (ours == "behind") || (place(1, i) < place(1, j)) == before {
				t.Errorf("%s, and the topics are %v", text, topics)
			}
			got = append(got, fmt.Sprint(i))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || p.progress().Compared != n {
			t.Errorf("out of order are %v, want %v, of %v read as %v", got, want, topics, read)
		}
		p.left(t)
	})
}

// TestPairsAreBounded: a topic that is far ahead on one side is not read there until records of it are done, while others are; what
// has no pair meanwhile is no difference; and ids are forgotten.
func TestPairsAreBounded(t *testing.T) {
	t.Parallel()
	p, found := joining(adopt.Definition{})
	large := string(make([]byte, pairsWindow/8))
	now := p.began.Add(time.Hour)
	turn := func(of side, pause, resume string) {
		t.Helper()
		if a, b := p.turns(of, now); strings.Join(a, ",") != pause || strings.Join(b, ",") != resume {
			t.Errorf("turns of %s: pause %q, resume %q", sideNames[of], a, b)
		}
	}
	add := func(of side, topic, id, value string) {
		r := recordOf(of, "k", value)
		r.Topic = p.topic(of, topic)
		p.add(of, r, id, false, now)
	}
	add(ours, "u", "alone", "v") // two topics share the window
	for i := range 4 {
		turn(ours, "", "")
		add(ours, "t", fmt.Sprint(i), large)
	}
	turn(ours, "s.t", "")
	turn(ours, "", "")
	turn(theirs, "", "")
	add(theirs, "t", "only ours is not read", "v")
	now = now.Add(time.Second)
	add(theirs, "t", "0", large)
	turn(ours, "", "")
	add(theirs, "t", "1", large)
	add(theirs, "t", "2", large)
	turn(ours, "", "s.t")
	now = now.Add(time.Second)
	add(theirs, "t", "read again", "v")
	p.expire(now.Add(time.Hour))
	if want := []string{"alone record: none after 1m0s | there", "3 record: none after 1m0s | there", "read again record: there | none after 1m0s"}; len(*found) != 3 || !slices.Contains(*found, want[0]) || !slices.Contains(*found, want[1]) || !slices.Contains(*found, want[2]) {
		t.Errorf("found %q, want %q", *found, want)
	}
	if n := p.progress(); n.Unread != 1 || n.Missing != 3 || !strings.Contains(n.String(), "not read in time 1") {
		t.Errorf("%+v, %s", n, n)
	}
	p.left(t)
	for i := range remembered {
		p.done.add(pairID{"t", fmt.Sprint("n", i)}, false)
	}
	if p.done.has(pairID{"t", "0"}) || !p.done.has(pairID{"t", "n0"}) || len(p.done.late) != remembered || len(p.done.ids) != remembered {
		t.Errorf("%d ids are remembered", len(p.done.late))
	}
}
