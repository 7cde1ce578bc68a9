package relay

import (
	"testing"
	"time"
)

// TestStorms counts with a clock of its own: three may be given up within ten seconds.
func TestStorms(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Second
	settings := TopicSettings{StormEvents: 3, StormWindow: window}
	for name, c := range map[string]struct {
		settings TopicSettings
		// x is an event that is given up, X one with which it is too many, . one that is delivered, s a second.
		run string
	}{
		"the fourth in a row":                    {settings, "xxxXX"},
		"delivered ones outweigh":                {settings, "x....xxxX"},
		"what was delivered before does not":     {settings, "......xxxX"},
		"the count begins anew after a window":   {settings, "xxxsssssssssssxxxX"},
		"at the end of the window it still runs": {settings, "xxxssssssssssX"},
		"never":                                  {TopicSettings{StormEvents: -1, StormWindow: window}, "xxxxxxxxxxxx"},
		"one is enough":                          {TopicSettings{StormEvents: 1, StormWindow: window}, "xX"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1, 0)
			s := newStorms()
			s.now = func() time.Time { return now }
			for i, step := range c.run {
				switch step {
				case '.':
					s.delivered("t")
				case 's':
					now = now.Add(time.Second)
				default:
					if got := s.exhausted("t", &c.settings); got != (step == 'X') {
						t.Errorf("after %q: too many is %v", c.run[:i+1], got)
					}
				}
			}
			if s.exhausted("u", &settings) {
				t.Error("one topic's storm is another's")
			}
		})
	}
}

// TestStormsOfNobody: a plan without a count, as in the model, has no storms.
func TestStormsOfNobody(t *testing.T) {
	t.Parallel()
	var s *storms
	s.delivered("t")
	for range 1000 {
		if s.exhausted("t", &TopicSettings{StormEvents: 1, StormWindow: time.Hour}) {
			t.Fatal("a storm")
		}
	}
}
