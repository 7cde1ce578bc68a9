package kafkajars

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed pom.xml
var pom []byte

// minJava is the oldest Java that runs a Kafka 4 broker.
const minJava = 17

type java struct {
	path  string
	major int
}

// findJava returns the java of JAVA_HOME, otherwise the one on PATH.
func findJava(ctx context.Context) (java, error) {
	path := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		path = filepath.Join(home, "bin", "java")
	}
	path, err := exec.LookPath(path)
	if err != nil {
		return java{}, fmt.Errorf("%w: no java (set JAVA_HOME or PATH to Java %d or newer): %w", ErrUnavailable, minJava, err)
	}
	cmd := exec.CommandContext(ctx, path, "-version")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err := commandError(ctx, path+" -version", err, out); err != nil {
		return java{}, err
	}
	major, err := javaMajor(string(out))
	if err != nil {
		return java{}, fmt.Errorf("%w: %s: %w", ErrUnavailable, path, err)
	}
	if major < minJava {
		return java{}, fmt.Errorf("%w: %s is Java %d, Kafka needs %d or newer (set JAVA_HOME)", ErrUnavailable, path, major, minJava)
	}
	return java{path: path, major: major}, nil
}

// javaVersion matches `openjdk version "17.0.15"`, `java version "21"` and the
// old `java version "1.8.0_402"`, where the second number counts.
var javaVersion = regexp.MustCompile(`version "(?:1\.)?(\d+)`)

func javaMajor(output string) (int, error) {
	m := javaVersion.FindStringSubmatch(output)
	if m == nil {
		return 0, fmt.Errorf("no version in the output of java -version: %q", lastLines(output))
	}
	return strconv.Atoi(m[1])
}

// classpath returns the class path of the broker.
func classpath(ctx context.Context, version string, log io.Writer) (string, error) {
	return Classpath(ctx, pom, version, log)
}

// Classpath returns the class path of what a Maven project file names; version
// is its property kafka.version. Maven answers the first time; the answer is
// kept in the user's cache folder and used as long as every jar that it names
// exists. Errors are ErrUnavailable as the errors of [Start] are.
func Classpath(ctx context.Context, pom []byte, version string, log io.Writer) (string, error) {
	file, err := cacheFile(pom, version)
	if err != nil {
		return resolve(ctx, pom, version, log) // nowhere to keep it: ask Maven each time
	}
	if cp, ok := cached(file); ok {
		return cp, nil
	}
	// One at a time: Maven's local repository does not stand two writers.
	release, err := lockFile(ctx, file+".lock")
	if err != nil {
		return "", err
	}
	defer release()
	if cp, ok := cached(file); ok {
		return cp, nil
	}
	cp, err := resolve(ctx, pom, version, log)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, []byte(cp), 0o644); err != nil {
		return "", fmt.Errorf("keep the class path of the Kafka jars: %w", err)
	}
	return cp, nil
}

func cacheFile(pom []byte, version string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "postrider", "kafkajars")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	sum := sha256.Sum256(pom)
	return filepath.Join(dir, version+"-"+hex.EncodeToString(sum[:6])+".classpath"), nil
}

func cached(file string) (string, bool) {
	data, err := os.ReadFile(file)
	if err != nil || len(data) == 0 {
		return "", false
	}
	for _, jar := range filepath.SplitList(string(data)) {
		if _, err := os.Stat(jar); err != nil {
			return "", false
		}
	}
	return string(data), true
}

// resolve has Maven download the missing jars and say where all jars are.
func resolve(ctx context.Context, pom []byte, version string, log io.Writer) (cp string, err error) {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("%w: the jars of Kafka %s have not been resolved yet and there is no mvn on PATH: %w", ErrUnavailable, version, err)
	}
	if log != nil {
		_, _ = fmt.Fprintf(log, "kafkajars: resolving the jars of Apache Kafka %s with Maven\n", version)
	}
	dir, err := os.MkdirTemp("", "postrider-kafkajars-")
	if err != nil {
		return "", fmt.Errorf("make a temporary folder for Maven: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	project, answer := filepath.Join(dir, "pom.xml"), filepath.Join(dir, "classpath")
	if err := os.WriteFile(project, pom, 0o644); err != nil {
		return "", fmt.Errorf("write Maven's project file: %w", err)
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", project, "-Dkafka.version="+version,
		"-Dmdep.outputFile="+answer, "dependency:build-classpath")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err := commandError(ctx, "mvn dependency:build-classpath for Kafka "+version, err, out); err != nil {
		return "", err
	}
	data, err := os.ReadFile(answer)
	if err != nil {
		return "", fmt.Errorf("read Maven's answer: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// commandError describes a command that failed. One that was cut off by its
// context says nothing about the machine, any other makes it unavailable.
func commandError(ctx context.Context, command string, err error, out []byte) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", command, context.Cause(ctx))
	default:
		return fmt.Errorf("%w: %s: %w\n%s", ErrUnavailable, command, err, lastLines(string(out)))
	}
}
