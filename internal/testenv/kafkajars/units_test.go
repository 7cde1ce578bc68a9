package kafkajars

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJavaMajor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		output string
		want   int
		ok     bool
	}{
		{`openjdk version "17.0.15" 2025-04-15`, 17, true},
		{"Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"21\" 2023-09-19", 21, true},
		{`java version "1.8.0_402"`, 8, true},
		{`openjdk version "25-ea" 2025-09-16`, 25, true},
		{"The operation couldn't be completed. Unable to locate a Java Runtime.", 0, false},
	}
	for _, tc := range tests {
		got, err := javaMajor(tc.output)
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("javaMajor(%q) = %d, %v; want %d, ok %v", tc.output, got, err, tc.want, tc.ok)
		}
	}
}

func TestServerProperties(t *testing.T) {
	t.Parallel()
	b := &Broker{
		dir: filepath.Join("x", `odd\name`), port: 1, controllerPort: 2,
		opts: Options{Config: map[string]string{"num.partitions": "3", "message.max.bytes": "9"}},
	}
	got := string(serverProperties(b.settings()))
	for _, want := range []string{
		"num.partitions=3\n", "message.max.bytes=9\n", "auto.create.topics.enable=false\n",
		"advertised.listeners=PLAINTEXT://127.0.0.1:1\n", "controller.quorum.voters=1@127.0.0.1:2\n", `odd\\name`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("properties lack %q:\n%s", want, got)
		}
	}
}

func TestDefaultVersionIsThePoms(t *testing.T) {
	t.Parallel()
	if want := "<kafka.version>" + DefaultVersion + "</kafka.version>"; !strings.Contains(string(pom), want) {
		t.Errorf("pom.xml does not hold %s", want)
	}
}

func TestNewClusterID(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if id := newClusterID(); len(id) != 22 || id[0] == '-' {
			t.Fatalf("newClusterID() = %q, want 22 characters and no leading dash", id)
		}
	}
}

func TestFreePort(t *testing.T) {
	t.Parallel()
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if port < firstPort || port > lastPort {
		t.Errorf("FreePort() = %d, want one between %d and %d", port, firstPort, lastPort)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var tl tail
	for range 3 {
		if n, err := tl.Write([]byte(strings.Repeat("x", tailBytes/2))); n != tailBytes/2 || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	_, _ = tl.Write([]byte("end"))
	if got := tl.String(); len(got) != tailBytes || !strings.HasSuffix(got, "xend") {
		t.Errorf("tail holds %d bytes ending in %q, want %d ending in xend", len(got), got[len(got)-4:], tailBytes)
	}
	if got := lastLines(strings.Repeat("line\n", 100)); strings.Count(got, "line") != 40 {
		t.Errorf("lastLines kept %d lines, want 40", strings.Count(got, "line"))
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	log := "12:00 [main] INFO A - starting\n12:00 [main] ERROR B - broken\njava.lang.X: why\n\tat y\n12:01 [main] INFO A - stopping\n"
	if got, want := reason(log), "12:00 [main] ERROR B - broken\njava.lang.X: why\n\tat y"; got != want {
		t.Errorf("reason = %q, want %q", got, want)
	}
	if got := reason("Invalid maximum heap size: -Xmxlots\n"); got != "Invalid maximum heap size: -Xmxlots" {
		t.Errorf("reason of a log without errors = %q, want its end", got)
	}
	if got := reason(strings.Repeat("a ERROR b\n", 100)); strings.Count(got, "ERROR") != maxLines {
		t.Errorf("reason kept %d lines, want %d", strings.Count(got, "ERROR"), maxLines)
	}
}

func TestCachedClasspathNeedsEveryJar(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jar, file := filepath.Join(dir, "a.jar"), filepath.Join(dir, "classpath")
	for _, f := range []string{jar, file} {
		if err := os.WriteFile(f, []byte(jar), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if cp, ok := cached(file); !ok || cp != jar {
		t.Fatalf("cached = %q, %v; want the jar", cp, ok)
	}
	if err := os.Remove(jar); err != nil {
		t.Fatal(err)
	}
	if cp, ok := cached(file); ok {
		t.Fatalf("cached = %q although its jar is gone", cp)
	}
	if _, ok := cached(filepath.Join(dir, "absent")); ok {
		t.Fatal("cached an absent file")
	}
}

func TestUnavailable(t *testing.T) {
	// t.Setenv forbids t.Parallel.
	t.Setenv("JAVA_HOME", t.TempDir())
	_, err := findJava(t.Context())
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "JAVA_HOME") {
		t.Errorf("without java: %v, want ErrUnavailable that names JAVA_HOME", err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = resolve(t.Context(), pom, DefaultVersion, nil)
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "mvn") {
		t.Errorf("without mvn: %v, want ErrUnavailable that names mvn", err)
	}
}

func TestLockFileWaitsForItsHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	release, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockFile(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("second lock = %v, want context.Canceled", err)
	}
	release()
	again, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatalf("lock after its release: %v", err)
	}
	again()
}

func TestTempDirSweepsAbandonedOnes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	abandoned, release, err := tempDir(root)
	if err != nil {
		t.Fatal(err)
	}
	release() // as the kernel does when its owner is killed
	used, release, err := tempDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	incomplete := filepath.Join(root, tempPrefix+"incomplete")
	if err := os.Mkdir(incomplete, 0o700); err != nil {
		t.Fatal(err)
	}
	_, release, err = tempDir(root)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for dir, want := range map[string]bool{abandoned: false, used: true, incomplete: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("folder %s: %v, want it to exist: %v", filepath.Base(dir), err, want)
		}
	}
}
