package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/message"
)

// What a failed message has and a good one has not says more than either alone. The good one is the nearest event of the
// same topic that was delivered.

const (
	// maxCompared is how large a payload may be that is compared, in bytes.
	maxCompared = 1 << 20
	// maxComparedDepth is how deep two JSON values are compared; below it they differ as a whole.
	maxComparedDepth = 24
	// maxDifferences is how many differences a page lists.
	maxDifferences = 50
	// goodOnes is how many delivered events are looked at for one of the same type.
	goodOnes = 20
)

// comparison is a message beside a good one.
type comparison struct {
	// None says why there is nothing to compare; empty where there is.
	None string
	// Good is the event that was delivered. OtherType says that none of the same type was near.
	Good      relay.EventStatus
	OtherType bool
	// Differences are the first ones, worst first; More is how many follow.
	Differences []difference
	More        int
}

// difference is a field that two messages do not have in common. Bad and Good are the two values; empty for a field that is
// not there.
type difference struct {
	Path, Bad, Good string
	// Missing says that one of them does not have it, and OtherKind that both have it, as a text and a number for example.
	Missing, OtherKind bool
}

// compareCause shows the message of a cause beside a good one, as they are. The API writes into the audit log who looks.
func compareCause(v *visit, _ string) error {
	view, err := v.readCause()
	if err != nil {
		return err
	}
	if view.Letter == nil || view.Letter.Newest == nil {
		return errNothingPicked
	}
	view.Letter.Path = "/causes/" + v.id()
	if view.Comparison, err = v.compare(view.Letter); err != nil {
		return err
	}
	v.frame.View = view
	return nil
}

func (v *visit) compare(l *letterView) (*comparison, error) {
	bad, err := get[api.Letter](v, "/dlq/"+url.PathEscape(l.ID)+"/payload", nil)
	if err != nil {
		return nil, err
	}
	if bad.Payload == nil && bad.PayloadKind != "tombstone" {
		return &comparison{None: "The message itself is not kept here, so there is nothing to compare."}, nil
	}
	c, err := v.findGood(l.Newest, eventType(badHeaders(bad.Headers)))
	if err != nil || c.None != "" {
		return c, err
	}
	good, err := get[api.EventPayload](v, "/outbox/"+strconv.FormatInt(c.Good.ID, 10)+"/payload", nil)
	if err != nil {
		return nil, err
	}
	all := compareHeaders(badHeaders(bad.Headers), headerTree(good.Headers))
	all = append(all, comparePayloads(bytesOf(bad.Payload), bytesOf(good.Payload))...)
	sortDifferences(all, l.Message)
	c.Differences = all[:min(len(all), maxDifferences)]
	c.More = len(all) - len(c.Differences)
	return c, nil
}

// sortDifferences puts first the headers that an error names, and then what is more likely to be the fault.
func sortDifferences(all []difference, failure string) {
	rank := func(d difference) int {
		if d.isNamed(failure) {
			return -1
		}
		return d.rank()
	}
	slices.SortStableFunc(all, func(a, b difference) int { return rank(a) - rank(b) })
}

// isNamed reports whether the difference is a header whose name stands in a text as a word.
func (d difference) isNamed(text string) bool {
	name, isHeader := strings.CutPrefix(d.Path, headerPath)
	if !isHeader || name == "" {
		return false
	}
	inWord := func(r rune) bool { return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for rest, before := text, rune(0); ; {
		i := strings.Index(rest, name)
		if i < 0 {
			return false
		}
		if i > 0 {
			before, _ = utf8.DecodeLastRuneInString(rest[:i])
		}
		after, _ := utf8.DecodeRuneInString(rest[i+len(name):])
		if !inWord(before) && !inWord(after) {
			return true
		}
		before, rest = rune(name[len(name)-1]), rest[i+len(name):]
	}
}

// rank puts first what is more likely to be the fault: values differ from event to event.
func (d difference) rank() int {
	switch {
	case d.Missing:
		return 0
	case d.OtherKind:
		return 1
	}
	return 2
}

// findGood returns the delivered event of a dead letter's topic that is nearest in time, of the same type where the dead
// letter has one.
func (v *visit) findGood(l *api.Letter, kind string) (*comparison, error) {
	topic, at := text(l.OriginTopic), l.LastFailedAt
	if topic == "" {
		return &comparison{None: "The dead letter does not say which topic its message is of."}, nil
	}
	sides := []url.Values{{}} // the newest, where the event itself is not there
	if l.EventID != nil {
		own, err := get[api.List[relay.EventStatus]](v, "/outbox", url.Values{"event_id": {l.EventID.String()}})
		if err != nil {
			return nil, err
		}
		if len(own.Items) == 1 {
			at = &own.Items[0].CreatedAt
			after := []string{strconv.FormatInt(own.Items[0].ID, 10)}
			sides = []url.Values{{"after": after}, {"after": after, "order_dir": {"asc"}}}
		}
	}
	var found []relay.EventStatus
	whole := true
	for _, q := range sides {
		q.Set("topic", topic)
		q.Set("status", "succeeded")
		q.Set("page_size", strconv.Itoa(goodOnes))
		side, err := get[api.List[relay.EventStatus]](v, "/outbox", q)
		if err != nil {
			return nil, err
		}
		found = append(found, side.Items...)
		whole = whole && side.Next == nil
	}
	switch {
	case len(found) == 0 && whole:
		return &comparison{None: "The outbox has no delivered event of " + clip(topic, 120) + " any more."}, nil
	case len(found) == 0: // a list looks at so many events at most
		return &comparison{None: fmt.Sprintf("No delivered event of %s is among the nearest 20,000 events.", clip(topic, 120))}, nil
	}
	if at != nil {
		slices.SortStableFunc(found, func(a, b relay.EventStatus) int { return cmp.Compare(apart(a, *at), apart(b, *at)) })
	}
	if kind == "" {
		return &comparison{Good: found[0]}, nil
	}
	nearest := found[:min(len(found), goodOnes)]
	ids := make([]int64, len(nearest))
	for i := range nearest {
		ids[i] = nearest[i].ID
	}
	headers, err := v.console.cfg.Outbox.EventHeaders(v.ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, e := range nearest { // one that was purged since has no headers
		if eventType(headerTree(headers[e.ID])) == kind {
			return &comparison{Good: e}, nil
		}
	}
	return &comparison{Good: found[0], OtherType: true}, nil
}

func apart(e relay.EventStatus, at time.Time) time.Duration { return e.CreatedAt.Sub(at).Abs() }

// typeHeaders are headers that name the type of an event, as services and CloudEvents call them.
var typeHeaders = []string{"type", "event_type", "event-type", "eventtype", "ce_type", "ce-type"}

// eventType is the type of an event as its headers name it; empty where none does.
func eventType(headers map[string]any) string {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if value, is := headers[name].(string); is && slices.Contains(typeHeaders, strings.ToLower(name)) {
			return value
		}
	}
	return ""
}

// headerTree reads headers, an object or pairs, as values by their names. A name that comes twice has a list.
func headerTree(raw json.RawMessage) map[string]any {
	var members map[string]any
	if decodeJSON(raw, &members) == nil {
		return members
	}
	var pairs [][]any
	_ = decodeJSON(raw, &pairs) // headers that cannot be read are none
	out := map[string]any{}
	for _, p := range pairs {
		name, is := "", len(p) == 2
		if is {
			name, is = p[0].(string)
		}
		switch before, twice := out[name]; {
		case !is:
		case !twice:
			out[name] = p[1]
		default:
			if list, is := before.([]any); is {
				out[name] = append(list, p[1])
			} else {
				out[name] = []any{before, p[1]}
			}
		}
	}
	return out
}

// badHeaders are the headers of a dead letter. Headers that the relay could not read are in one of their own.
func badHeaders(raw json.RawMessage) map[string]any {
	out := headerTree(raw)
	if unreadable, is := out[message.HeaderInvalidHeaders].(string); is {
		delete(out, message.HeaderInvalidHeaders)
		maps.Copy(out, headerTree(json.RawMessage(unreadable)))
	}
	return out
}

// decodeJSON reads one JSON value without making its numbers others.
func decodeJSON(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("there is more behind the value, at byte %d", d.InputOffset())
	}
	return nil
}

// headerPath begins the path of a header.
const headerPath = "header "

func compareHeaders(bad, good map[string]any) []difference {
	return compareMembers(headerPath, bad, good, 0)
}

// comparePayloads compares JSON field by field, and anything else as a whole.
func comparePayloads(bad, good []byte) []difference {
	if bytes.Equal(bad, good) {
		return nil
	}
	if len(bad) > maxCompared || len(good) > maxCompared {
		return []difference{{Path: "payload", Bad: bytesText(int64(len(bad))), Good: bytesText(int64(len(good)))}}
	}
	var a, b any
	isBad, isGood := decodeJSON(bad, &a) == nil, decodeJSON(good, &b) == nil
	if !isBad || !isGood {
		name := func(is bool, raw []byte) string {
			if is {
				return "JSON"
			}
			return "no JSON: " + clip(string(raw), 200)
		}
		return []difference{{Path: "payload", Bad: name(isBad, bad), Good: name(isGood, good), OtherKind: isBad != isGood}}
	}
	return compareValues("", a, b, 0)
}

func compareValues(path string, a, b any, depth int) []difference {
	if depth < maxComparedDepth {
		switch bad := a.(type) {
		case map[string]any:
			if good, is := b.(map[string]any); is {
				if path != "" {
					path += "."
				}
				return compareMembers(path, bad, good, depth)
			}
		case []any:
			if good, is := b.([]any); is {
				return compareItems(path, bad, good, depth)
			}
		}
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []difference{{Path: path, Bad: valueText(a), Good: valueText(b), OtherKind: reflect.TypeOf(a) != reflect.TypeOf(b)}}
}

func compareMembers(path string, bad, good map[string]any, depth int) []difference {
	var out []difference
	names := maps.Clone(good)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, bad)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, isBad := bad[name]
		b, isGood := good[name]
		at := path + clip(name, 100)
		switch {
		case !isGood:
			out = append(out, difference{Path: at, Bad: valueText(a), Missing: true})
		case !isBad:
			out = append(out, difference{Path: at, Good: valueText(b), Missing: true})
		default:
			out = append(out, compareValues(clip(at, 400), a, b, depth+1)...)
		}
	}
	return out
}

func compareItems(path string, bad, good []any, depth int) []difference {
	var out []difference
	for i := range min(len(bad), len(good)) {
		out = append(out, compareValues(fmt.Sprintf("%s[%d]", path, i), bad[i], good[i], depth+1)...)
	}
	if len(bad) != len(good) {
		out = append(out, difference{Path: path, Bad: some(len(bad), "item", "items"), Good: some(len(good), "item", "items")})
	}
	return out
}

// valueText is a value as JSON, clipped.
func valueText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(err)
	}
	return clip(string(raw), 200)
}
