package replay

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/relay"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"defaults":            {func(*Options) {}, ""},
		"no topic":            {func(o *Options) { o.From = "" }, "the topic to read"},
		"bad topic":           {func(o *Options) { o.From = "a b" }, `"a b"`},
		"bad target":          {func(o *Options) { o.To = "a/b" }, "the topic to send to"},
		"target is source":    {func(o *Options) { o.To = source }, "is read and would be sent to"},
		"since after until":   {func(o *Options) { o.Since, o.Until = Moment{"1h", now}, Moment{"2h", now.Add(-time.Hour)} }, "since 1h is not before until 2h"},
		"negative partition":  {func(o *Options) { o.Partitions = []int32{-1} }, "partition is negative"},
		"offsets of all":      {func(o *Options) { o.Offsets = &Span{1, 2} }, "one partition"},
		"offsets of two":      {func(o *Options) { o.Offsets, o.Partitions = &Span{1, 2}, []int32{1, 2} }, "one partition"},
		"empty offsets":       {func(o *Options) { o.Offsets, o.Partitions = &Span{2, 2}, []int32{1} }, "offsets 2 to 1 are no range"},
		"negative offsets":    {func(o *Options) { o.Offsets, o.Partitions = &Span{-2, 2}, []int32{1} }, "no range"},
		"offsets":             {func(o *Options) { o.Offsets, o.Partitions = &Span{1, 2}, []int32{1} }, ""},
		"bad name":            {func(o *Options) { o.Run = "a b" }, `"a b"`},
		"long name":           {func(o *Options) { o.Run = strings.Repeat("a", 61) }, "1 to 60"},
		"group on two lines":  {func(o *Options) { o.Group = "a\nb" }, "on one line"},
		"hops":                {func(o *Options) { o.MaxHops = 1001 }, "1 to 1000"},
		"rate":                {func(o *Options) { o.Rate = -1 }, "the rate is -1"},
		"rate that is no one": {func(o *Options) { o.Rate = math.NaN() }, "the rate is NaN"},
		"endless rate":        {func(o *Options) { o.Rate = math.Inf(1) }, "the rate is +Inf"},
		"max":                 {func(o *Options) { o.Max = -1 }, "must not be negative"},
	} {
		o := optionsOf(c.change)
		err := o.Check()
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if o := optionsOf(nil); o.Check() != nil || o.To != ToOriginal || o.MaxHops != DefaultMaxHops {
		t.Errorf("defaults %+v", o)
	}
}

// TestNames: the same options in any order give one name, and other options give another.
func TestNames(t *testing.T) {
	t.Parallel()
	match := func(texts ...string) func(*Options) {
		return func(o *Options) {
			for _, text := range texts {
				m, err := ParseMatch(text)
				if err != nil {
					t.Fatal(err)
				}
				o.Match = append(o.Match, m)
			}
		}
	}
	groups := map[string]string{}
	for name, change := range map[string]func(*Options){
		"plain": nil, "match": match("key=a", "key=b"), "other match": match("key=a"),
		"to":        func(o *Options) { o.To = "x" },
		"since":     func(o *Options) { o.Since = Moment{"2h", time.Now()} },
		"partition": func(o *Options) { o.Partitions = []int32{1} },
		"named":     func(o *Options) { o.Run = "x" },
		"grouped":   func(o *Options) { o.Group = "g" },
	} {
		o := optionsOf(change)
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		if other, twice := groups[o.group()]; twice {
			t.Errorf("%s and %s have the group %s", name, other, o.group())
		}
		groups[o.group()] = name
	}
	a, b := optionsOf(match("key=a", "key=b")), optionsOf(match("key=b", "key=a"))
	if a.Check() != nil || b.Check() != nil || a.group() != b.group() || !strings.HasPrefix(a.group(), GroupPrefix) {
		t.Errorf("%s and %s", a.group(), b.group())
	}
	for _, pattern := range []string{"a", "\x01", "\u00ff", `"`, "<"} {
		long := optionsOf(match("key=" + strings.Repeat(pattern, 3000)))
		if about := shortAbout(long.about()); !strings.HasPrefix(about, "digest ") {
			t.Errorf("%q has %d bytes", pattern, len(about))
		}
	}
}

// silent is a publisher that publishes nothing.
type silent struct{}

func (silent) Publish(context.Context, []relay.Message) []relay.Outcome { return nil }

func TestNew(t *testing.T) {
	t.Parallel()
	l := newLetters(1)
	for name, cfg := range map[string]Config{
		"no cluster":   {Publisher: silent{}, Options: Options{From: source}},
		"no publisher": {Cluster: l, Options: Options{From: source}},
		"no options":   {Cluster: l, Publisher: silent{}},
		"no batch":     {Cluster: l, Publisher: silent{}, Options: Options{From: source}, Batch: -1},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	r, err := New(Config{Cluster: l, Publisher: silent{}, Options: Options{From: source}})
	if err != nil || r.batch != DefaultBatch {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), Plan{}); err == nil {
		t.Error("a plan of nothing is carried out")
	}
}
