package pgserver

import "testing"

func TestUnfit(t *testing.T) {
	t.Parallel()
	for version, unfit := range map[string]bool{
		"9.6.24": true, "13.22": true, "14.0": false, "15.18 (Debian 15.18-0+deb12u1)": false, "17.7": false, "18beta1": true, "18.0": true,
		"18.1 (Homebrew)": true, "18.2": false, "18.10": false, "19devel": false, "15.2-YB-2.25.0.0-b0": true, "CockroachDB CCL v26.3.0": true, "": false, "pooler": false,
	} {
		why, remedy := Unfit(version)
		if (why != "") != unfit || (remedy != "") != unfit {
			t.Errorf("%q is unfit: %q, %q", version, why, remedy)
		}
	}
}
