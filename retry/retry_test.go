package retry

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDelayOfDefaultPolicy(t *testing.T) {
	t.Parallel()
	p := Default()
	for attempt, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 16 * time.Second,
		6: 32 * time.Second, 7: time.Minute, 8: time.Minute, 1000: time.Minute, math.MaxInt: time.Minute,
	} {
		if got := p.Delay(attempt, 0); got != want {
			t.Errorf("Delay(%d, 0) = %v, want %v", attempt, got, want)
		}
	}
	if got := p.Delay(2, 0.5); got != 2200*time.Millisecond {
		t.Errorf("half of the largest jitter on 2 s is %v, want 2.2s", got)
	}
}

func TestDelayIsBaseTimesPowerOfTwoCappedPlusJitter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			MaxAttempts: 1,
			Base:        time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			Jitter:      rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		p.Max = p.Base + time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "more"))
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		attempt := rapid.IntRange(1, 70).Draw(t, "attempt")
		random := rapid.Float64Range(0, 0.999999).Draw(t, "random")
		want := math.Min(float64(p.Base)*math.Pow(2, float64(attempt-1)), float64(p.Max))
		plain, got := p.Delay(attempt, 0), p.Delay(attempt, random)
		if math.Abs(float64(plain)-want) > 1 {
			t.Fatalf("Delay(%d, 0) = %v, want %v", attempt, plain, time.Duration(want))
		}
		if got < plain || float64(got) > float64(plain)*(1+p.Jitter)+1 {
			t.Fatalf("Delay(%d, %v) = %v, outside %v plus %v of it", attempt, random, got, plain, p.Jitter)
		}
	})
}

func TestExhausted(t *testing.T) {
	t.Parallel()
	p := Default()
	for _, c := range []struct {
		attempts, own int
		want          bool
	}{{4, 0, false}, {5, 0, true}, {6, 0, true}, {1, 1, true}, {1, 2, false}, {5, 10, false}, {10, 10, true}} {
		if got := p.Exhausted(c.attempts, c.own); got != c.want {
			t.Errorf("Exhausted(%d, %d) = %v", c.attempts, c.own, got)
		}
	}
}

func TestPolicyValidate(t *testing.T) {
	t.Parallel()
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	for mention, change := range map[string]func(*Policy){
		"max attempts is 0": func(p *Policy) { p.MaxAttempts = 0 },
		"retry base":        func(p *Policy) { p.Base = 0 },
		"retry max":         func(p *Policy) { p.Max = p.Base - 1 },
		"retry jitter is -": func(p *Policy) { p.Jitter = -0.1 },
		"retry jitter is 1": func(p *Policy) { p.Jitter = 1.1 },
		"retry jitter is N": func(p *Policy) { p.Jitter = math.NaN() },
	} {
		p := Default()
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), mention) {
			t.Errorf("Validate() = %v, want a mention of %q", err, mention)
		}
	}
}
