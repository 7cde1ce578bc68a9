package jsontime_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/cmd/internal/jsontime"
)

type inner struct {
	At time.Time `json:"at"`
}

type row struct {
	inner
	Name  string               `json:"name"`
	Until *time.Time           `json:"until"`
	Many  []inner              `json:"many"`
	Named map[string]time.Time `json:"named"`
	Any   any                  `json:"any"`
	Two   [2]inner             `json:"two"`
	Raw   json.RawMessage      `json:"raw"`
	quiet time.Time            //nolint:unused // what is not exported stays as it is
}

func encoded(t interface{ Fatal(...any) }, v any) string {
	var out []byte
	if err := jsontime.Encode(v, func(v any) (err error) { out, err = json.Marshal(v); return err }); err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTimesOutOfRange(t *testing.T) {
	t.Parallel()
	far, old := time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-4712, 1, 1, 0, 0, 0, 0, time.UTC)
	until := far
	v := row{inner: inner{far}, Name: "a", Until: &until, Many: []inner{{old}, {time.Unix(0, 0).UTC()}}, Named: map[string]time.Time{"x": far},
		Any: map[string]any{"y": &inner{old}}, Two: [2]inner{{far}, {old}}, Raw: json.RawMessage(`{"b":1}`), quiet: far}
	const hi, lo = `"9999-12-31T23:59:59Z"`, `"0001-01-01T00:00:00Z"`
	want := `{"at":` + hi + `,"name":"a","until":` + hi + `,"many":[{"at":` + lo + `},{"at":"1970-01-01T00:00:00Z"}],"named":{"x":` + hi + `},"any":{"y":{"at":` + lo +
		`}},"two":[{"at":` + hi + `},{"at":` + lo + `}],"raw":{"b":1}}`
	if got := encoded(t, v); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !v.At.Equal(far) || !v.Until.Equal(far) || !v.Many[0].At.Equal(old) || !v.Named["x"].Equal(far) || !v.Any.(map[string]any)["y"].(*inner).At.Equal(old) || !v.quiet.Equal(far) {
		t.Errorf("what was to be encoded has changed: %+v", v)
	}
	// The last day of 9999 is past it where clocks are ahead.
	if got := encoded(t, inner{time.Date(10000, 1, 1, 10, 0, 0, 0, time.FixedZone("", 14*3600))}); got != `{"at":"9999-12-31T20:00:00Z"}` {
		t.Error(got)
	}
}

// TestOthersAreLeftAlone: what can be said is said as encoding/json would, and other errors are told.
func TestOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-60_000_000_000, 250_000_000_000).Draw(t, "at"), 0).UTC()
		v := row{inner: inner{at}, Until: &at, Many: []inner{{at}}, Any: at}
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got := encoded(t, v); got != string(want) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
	calls := 0
	err := jsontime.Encode(row{Raw: json.RawMessage(`{`)}, func(v any) error { calls++; _, err := json.Marshal(v); return err })
	if calls != 1 || err == nil || !strings.Contains(err.Error(), "RawMessage") {
		t.Errorf("%d calls, %v", calls, err)
	}
	if err := jsontime.Encode(nil, func(any) error { return errors.New("no") }); err == nil || err.Error() != "no" {
		t.Error(err)
	}
}
