package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestPaceKeepsItsTimes: each thing is due by its number, also behind one that takes long, and that one's delay is
// counted.
func TestPaceKeepsItsTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var late histogram
		var mu sync.Mutex
		due := map[int]time.Duration{}
		start := time.Now()
		err := pace{10, 1, &late}.run(t.Context(), 5, func(_ context.Context, i int, at time.Time) error {
			mu.Lock()
			due[i] = at.Sub(start)
			mu.Unlock()
			if i == 1 {
				time.Sleep(250 * time.Millisecond)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if want := time.Duration(i) * 100 * time.Millisecond; due[i] != want {
				t.Errorf("thing %d was due at %v, want %v", i, due[i], want)
			}
		}
		// The third was begun 150 ms late, the fourth 50 ms, the others in time.
		if took := time.Since(start); took != 400*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if longest := late.quantile(1); longest != 150 {
			t.Errorf("begun %v ms late, want 150", longest)
		}
	})
}

func TestPaceEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	var begun atomic.Int64
	err := pace{1_000_000, 3, &histogram{}}.run(t.Context(), 1000, func(_ context.Context, i int, _ time.Time) error {
		begun.Add(1)
		if i == 5 {
			return boom
		}
		return nil
	})
	if !errors.Is(err, boom) || begun.Load() == 1000 {
		t.Errorf("%d begun, %v", begun.Load(), err)
	}
}

// TestTheMixIsWhatTheTextSays: the note under the table names the shares.
func TestTheMixIsWhatTheTextSays(t *testing.T) {
	t.Parallel()
	questions := apiQuestions(&apiKnown{entries: []string{"e"}, groups: []string{"g"}, topics: []string{"t"}, codes: []string{"c"}, outage: "o", next: "n"})
	weights := map[string]int{}
	names := map[string]bool{}
	for _, q := range questions {
		weights[q.kind] += q.weight
		if names[q.name] {
			t.Errorf("two questions are called %q", q.name)
		}
		names[q.name] = true
		if path := q.path(rand.New(rand.NewPCG(1, 1))); !strings.HasPrefix(path, "/") {
			t.Errorf("%s: %q", q.name, path)
		}
	}
	if weights["list"] != 30 || weights["filter"] != 35 || weights["get"] != 25 || weights["stats"] != 10 || len(weights) != len(apiKinds) {
		t.Errorf("the mix is %v", weights)
	}
	drawn := map[string]int{}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		drawn[drawQuestion(questions, random).name]++
	}
	if len(drawn) != len(questions) || drawn["page 4001"] < 100 || drawn["page 4001"] > 320 {
		t.Errorf("drawn %v", drawn)
	}
}

// TestAnAnswerThatIsNoneIsAnError: a desk that refuses, or finds nothing where there is something, is not measured.
func TestAnAnswerThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/v1/full": `{"ok":true,"data":{"items":[{}]}}`, "/v1/empty": `{"ok":true,"data":{"items":[]}}`, "/v1/not": `{"ok":false,"data":null}`, "/v1/text": `fine`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-API-Key") != "k" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	defer s.Close()
	a := newAPIAsker(s.URL, "k", 1)
	defer a.close()
	question := func(path, finds string) apiQuestion {
		return apiQuestion{name: path, path: func(*rand.Rand) string { return path }, finds: finds}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		path, finds string
		fails       bool
	}{{"/full", "items", false}, {"/empty", "", false}, {"/empty", "items", true}, {"/not", "", true}, {"/text", "", true}} {
		if err := a.check(t.Context(), question(c.path, c.finds), random); (err != nil) != c.fails {
			t.Errorf("%s: %v", c.path, err)
		}
	}
	a.key = "other"
	if _, err := a.get(t.Context(), "/full"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without a key that works: %v", err)
	}
}
