package kafkatest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// asPackage makes this test binary behave like a package that misuses
// kafkatest, see TestMisuse.
const asPackage = "KAFKATEST_TEST_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(asPackage) {
	case "":
		kafkatest.Main(m)
	case "without main":
		os.Exit(m.Run())
	case "leaking":
		kafkatest.Main(kafkatest.RunnerFunc(leak))
	}
}

// leak is a package whose tests pass and leave a goroutine behind.
func leak() int {
	go func() { select {} }()
	return 0
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ as, want string }{
		{"without main", "add func TestMain(m *testing.M) { kafkatest.Main(m) }"},
		{"leaking", "goroutines outlive them"},
	} {
		t.Run(tc.as, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(self, "-test.run=^TestGroup$")
			cmd.Env = append(os.Environ(), asPackage+"="+tc.as)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Errorf("the tests of a package %s pass", tc.as)
			}
			if !strings.Contains(string(out), tc.want) {
				t.Errorf("output does not say %q:\n%s", tc.want, out)
			}
		})
	}
}
