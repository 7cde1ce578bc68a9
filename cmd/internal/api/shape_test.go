package api_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// put sets every time of a value that can be reached to at, and gives every empty list one element.
func put(v reflect.Value, at time.Time) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(at))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				put(v.Field(i), at)
			}
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			put(v.Index(i), at)
		}
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		put(v.Elem(), at)
	}
}

// made is a value with every time at.
func made[T any](at time.Time) (v T) {
	put(reflect.ValueOf(&v).Elem(), at)
	return v
}

// TestTimesOfDeadLettersCanBeSaid: a time of any year leaves no constructor as one that encoding/json refuses.
func TestTimesOfDeadLettersCanBeSaid(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-4712, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3*60*60)), time.Date(1, 1, 1, 1, 0, 0, 0, time.FixedZone("", 3*60*60))} {
		letter := made[dlq.Letter](at)
		for name, v := range map[string]any{
			"entry": api.NewEntry(made[dlq.Entry](at)), "list": api.NewEntryList(made[dlq.Page](at), dlq.Filter{}),
			"detail": api.NewDetail(made[dlq.Detail](at), made[struct{ Done []access.Done }](at).Done, &letter), "letter": api.NewLetter(&letter),
			"revealed": api.NewRevealedLetter(&letter), "redrive": api.NewRedrive(made[dlq.Redrive](at)), "changed": api.NewChangedEntry(made[dlq.Entry](at)),
			"group": api.NewGroup(made[dlq.Group](at)), "groups": api.NewGroupList(made[dlq.GroupPage](at)), "group detail": api.NewGroupDetail(made[dlq.GroupDetail](at)),
			"resolved": api.NewResolvedGroup(made[dlq.ResolvedGroup](at)), "operation": api.NewOperation(made[dlq.Operation](at)),
			"stats": api.NewStats(made[dlq.Stats](at)), "fetched": api.NewFetched(made[dlq.Fetched](at)),
		} {
			encoded, err := json.Marshal(v)
			if err != nil {
				t.Errorf("%s of %v: %v", name, at, err)
			}
			if !strings.Contains(string(encoded), `"9999-12-31T23:59:59`) && !strings.Contains(string(encoded), `"0001-01-01T00:00:00Z"`) {
				t.Errorf("%s of %v has not the nearest time: %s", name, at, encoded)
			}
		}
	}
}

// TestNothingIsNullOrEmpty: what is not there is null, a list or an object without members is not.
func TestNothingIsNullOrEmpty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		v    any
		want string
	}{
		"list":      {api.NewEntryList(dlq.Page{TotalExact: true}, dlq.Filter{Limit: 25, Offset: 50}), `{"items":[],"next":null,"total":0,"total_exact":true,"page":3,"page_size":25,"incomplete":false}`},
		"groups":    {api.NewGroupList(dlq.GroupPage{Total: 3, Next: "n"}), `{"items":[],"next":"n","total":3,"total_exact":true}`},
		"items":     {api.NewItemList(nil, 3), `{"items":[],"next":null}`},
		"next item": {api.NewItemList([]dlq.Item{{Place: 7, State: "waiting"}, {Place: 8}}, 1), `{"items":[{"item":7,"dlq_entry_uuid":"00000000-0000-0000-0000-000000000000","state":"waiting","reason":null,"outcome":null,"successor_uuid":null,"topic":null,"key":null,"event_id":null,"task_uuid":null,"dlq_reason":null,"error_code":null}],"next":"7"}`},
		"requeued":  {api.NewRequeued(nil, dlq.Requeued{}), `{"requeued":[],"asked":[],"skipped":[],"stopped_tasks":[],"reaches":[],"dry_run":false}`},
		"no code":   {api.NewStats(dlq.Stats{ByErrorCode: map[string]int64{"": 2, "UNKNOWN": 1}}).ByErrorCode, `{"UNKNOWN":3}`},
		"stats":     {api.NewStats(dlq.Stats{}), `{"total":0,"by_reason":{},"last_24h":0,"reasons":[],"pending":0,"by_error_code":{},"oldest_pending_at":null,"recent":[]}`},
		"fetched":   {api.NewFetched(dlq.Fetched{}), `{"dlq_entry_uuid":"00000000-0000-0000-0000-000000000000","letter_id":null,"state":null,"gone_at":null,"explanation":"nothing to fetch: its message is in the letter, or in the outbox","error":null}`},
		"scope":     {api.NewOperation(dlq.Operation{Scope: dlq.Scope{Filter: &dlq.Filter{}}}).Scope, `{"filter":{}}`},
		"ids":       {api.NewOperation(dlq.Operation{Items: 3}).Scope, `{"ids":3}`},
		"plan":      {api.NewOperation(dlq.Operation{}).Plan.Topics, `{}`},
		"letters":   {api.NewDetail(dlq.Detail{}, nil, nil).Letters, `[]`},
		"redrives":  {api.NewDetail(dlq.Detail{}, nil, nil).Redrives, `[]`},
		"audit":     {api.NewDetail(dlq.Detail{}, nil, nil).Audit, `[]`},
		"snapshot":  {api.NewDetail(dlq.Detail{}, nil, nil).TaskSnapshot, `null`},
		"why":       {api.NewGroupDetail(dlq.GroupDetail{}).Why, `[]`},
		"statuses":  {api.NewGroupDetail(dlq.GroupDetail{}).Statuses, `{"cancelled":0,"manually_resolved":0,"pending":0,"permanently_failed":0}`},
	} {
		if got, err := json.Marshal(c.v); err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
}

// TestBytes: JSON stays JSON where it is a payload, and all else is a text or base64.
func TestBytes(t *testing.T) {
	t.Parallel()
	for bytes, want := range map[string][2]string{
		"007":         {`{"encoding":"text","value":"007"}`, `{"encoding":"text","value":"007"}`},
		"7":           {`{"encoding":"text","value":"7"}`, `{"encoding":"json","value":7}`},
		`{"a": 1e99}`: {`{"encoding":"text","value":"{\"a\": 1e99}"}`, `{"encoding":"json","value":{"a":1e99}}`},
		"":            {`{"encoding":"text","value":""}`, `{"encoding":"text","value":""}`},
		"\xff":        {`{"encoding":"base64","value":"/w=="}`, `{"encoding":"base64","value":"/w=="}`},
		"\"\xff\"":    {`{"encoding":"base64","value":"Iv8i"}`, `{"encoding":"base64","value":"Iv8i"}`},
	} {
		key, _ := json.Marshal(api.KeyBytes([]byte(bytes)))
		payload, _ := json.Marshal(api.PayloadBytes([]byte(bytes)))
		if string(key) != want[0] || string(payload) != want[1] {
			t.Errorf("%q: %s and %s, want %s", bytes, key, payload, want)
		}
	}
	if api.KeyBytes(nil) != nil || api.PayloadBytes(nil) != nil {
		t.Error("Kafka's null is not null")
	}
}

// TestLettersAreRevealedAlone: the bytes of a message are in the letter that was asked for, and in no other.
func TestLettersAreRevealedAlone(t *testing.T) {
	t.Parallel()
	redacted := []message.Header{{Name: "auth", Value: []byte("[redacted]")}}
	d := dlq.Detail{Letters: []dlq.Letter{{ID: "new", Headers: redacted}, {ID: "old", Headers: redacted}}}
	whole := func(id string) *dlq.Letter {
		return &dlq.Letter{ID: id, Key: []byte("k"), Payload: []byte("secret"), Headers: []message.Header{{Name: "auth", Value: []byte("s3cret")}}}
	}
	if encoded, err := json.Marshal(api.NewDetail(d, nil, nil)); err != nil || strings.Contains(string(encoded), "s3cret") {
		t.Errorf("%s, %v", encoded, err)
	}
	for asked, place := range map[string]int{"new": 0, "old": 1, "older": 2} {
		letters := api.NewDetail(d, nil, whole(asked)).Letters
		for i, l := range letters {
			shown := l.Key != nil && l.Payload != nil && strings.Contains(string(l.Headers), "s3cret")
			hidden := l.Key == nil && l.Payload == nil && string(l.Headers) == "null"
			if i == place && (!shown || l.ID != asked) || i != place && !hidden || i < 2 && string(l.RedactedHeaders) != `[["auth","[redacted]"]]` {
				t.Errorf("%s was asked for: letter %d is %+v", asked, i, l)
			}
		}
		if len(letters) != max(2, place+1) {
			t.Errorf("%s: %d letters", asked, len(letters))
		}
	}
}

// TestRequeuedKeepsTheOrder: in which the investigations were named.
func TestRequeuedKeepsTheOrder(t *testing.T) {
	t.Parallel()
	a, b, c, d := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	got := api.NewRequeued([]uuid.UUID{a, b, c, d}, dlq.Requeued{Entries: []uuid.UUID{c, a}, Asked: []uuid.UUID{c}, Skipped: []dlq.Skip{{Entry: d, Reason: dlq.AlreadyQueued}, {Entry: b, Reason: dlq.TaskSubject}}})
	if want := (api.Requeued{Requeued: []uuid.UUID{a, c}, Asked: []uuid.UUID{c}, Skipped: []api.Skipped{{ID: b, Reason: dlq.TaskSubject, Explanation: dlq.TaskSubject.Explain()},
		{ID: d, Reason: dlq.AlreadyQueued, Explanation: dlq.AlreadyQueued.Explain()}}, StoppedTasks: []api.StoppedTask{}, Reaches: []api.Reach{}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
