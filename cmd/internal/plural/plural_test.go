package plural

import "testing"

func TestOf(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 topics are held", 1: "1 topic is held", 2: "2 topics are held"} {
		if got := Of(n, "topic is held", "topics are held"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
