package cli

import (
	"testing"

	"github.com/postrider/postrider/cmd/internal/api"
)

// TestHaltingByHand: 0 of the ratio is 0, and not the default; 0 of the minimum is refused.
func TestHaltingByHand(t *testing.T) {
	t.Parallel()
	d := newRig(t, 1)
	d.run(ExitUsage, "op plan --all --name n --halt-minimum 0", "the halt minimum is 0, it must be 1 or more")
	d.run(ExitUsage, "op plan --all --name n --halt-ratio 1.5", "the halt ratio is 1.5, it must be 0 to 1")
	for flags, want := range map[string]struct {
		ratio   float64
		minimum int
	}{
		"--name defaults":                               {0.1, 3},
		"--name first --halt-ratio 0":                   {0, 3},
		"--name atonce --halt-ratio 0 --halt-minimum 1": {0, 1},
	} {
		o := decode[api.Operation](t, d.run(ExitOK, "op plan --all -o json "+flags))
		if ratio, minimum := o.Options.HaltsAt(); o.Options.HaltRatio == nil || o.Options.HaltMinimum == nil || ratio != want.ratio || minimum != want.minimum {
			t.Errorf("%s: halts at %g of %d, want %+v", flags, ratio, minimum, want)
		}
	}
}
