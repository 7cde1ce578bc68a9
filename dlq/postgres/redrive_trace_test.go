package postgres

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/dlq"
	"github.com/postrider/postrider/relay/outbox"
	"github.com/postrider/postrider/relay/tracecontext"
)

// A redrive is a new trace, recorded as the old one was, that names the old one; what is no traceparent stays as it is.
func TestARedriveIsATraceOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.die(1, nil)
	const old = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	resend := func(headers [][2]any) [][]any {
		t.Helper()
		raw, err := json.Marshal(headers)
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, r.subject.pool, `select postrider.outbox_resend(array[letter_id], array[gen_random_uuid()], array['orders'], array[$1::jsonb], false, null) from postrider.dlq_letter`, string(raw))
		var text string
		if err := r.subject.pool.QueryRow(t.Context(), `select headers::text from postrider.outbox_event order by id desc limit 1`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var out [][]any
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	fresh := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-([0-9a-f]{2})$`)
	for _, given := range []string{old, strings.TrimSuffix(old, "1") + "0", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"} {
		got := resend([][2]any{{"a", "1"}, {"traceparent", given}, {"tracestate", "v=1"}, {"replay_traceparent", "older"}, {"b", nil}})
		traceparent, _ := got[1][1].(string)
		if m := fresh.FindStringSubmatch(traceparent); m == nil || m[1] != given[53:55] || strings.Contains(traceparent, given[3:35]) ||
			!tracecontext.Of([]outbox.Header{{Name: "traceparent", Value: []byte(traceparent)}}).IsValid() {
			t.Errorf("%s became %s", given, traceparent)
		}
		got[1][1] = "new"
		if text := fmt.Sprint(got); !strings.HasPrefix(text, "[[a 1] [traceparent new] [b <nil>] [replay_of event:") || !strings.HasSuffix(text, "[replay_traceparent "+given+"]]") {
			t.Errorf("the headers are %s", text)
		}
	}
	for _, given := range [][][2]any{
		{}, {{"traceparent", "hostile"}}, {{"traceparent", old}, {"traceparent", old}}, {{"traceparent", nil}}, {{"traceparent", map[string]string{"base64": "AA=="}}},
		{{"traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01"}, {"tracestate", "v=1"}}, {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}},
		{{"traceparent", "ff" + old[2:]}}, {{"traceparent", old + "-more"}}, {{"traceparent", strings.ToUpper(old)}}, {{"traceparent", old + "\n"}},
		{{"traceparent", strings.Repeat("0", 100_000)}},
	} {
		got := resend(append(given, [2]any{"replay_traceparent", "older"}))
		for i := range given {
			if fmt.Sprint(got[i]) != fmt.Sprint(given[i]) {
				t.Errorf("%.100q became %.100q", given[i], got[i])
			}
		}
		var added []any
		for _, h := range got[len(given):] {
			added = append(added, h[0])
		}
		if !slices.Equal(added, []any{dlq.HeaderReplayOf, dlq.HeaderReplayID, outbox.HeaderHops}) {
			t.Errorf("of %.100q there are %.200q", given, got)
		}
	}
}
