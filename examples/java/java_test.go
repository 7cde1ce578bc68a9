package java

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/postrider/postrider/examples/stage"
	"github.com/postrider/postrider/internal/testenv/kafkajars"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

func TestMain(m *testing.M) { stage.Main(m) }

// TestJava compiles the shop, and runs it.
func TestJava(t *testing.T) {
	t.Parallel()
	pom, err := os.ReadFile("pom.xml")
	if err != nil {
		t.Fatal(err)
	}
	jars, err := kafkajars.Classpath(t.Context(), pom, kafkajars.DefaultVersion, os.Stderr)
	if errors.Is(err, kafkajars.ErrUnavailable) {
		logtest.NotTested(t, "Java or Maven is missing: "+err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("src/shop/*.java")
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	classes := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), tool("javac"), append([]string{"-J-XX:TieredStopAtLevel=1", "-Xlint:all,-serial", "-Werror", "-proc:none", "-cp", jars, "-d", classes}, sources...)...).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	program := func(args ...string) []string {
		return append([]string{tool("java"), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"-cp", classes + string(filepath.ListSeparator) + jars}, args...)
	}
	stage.RunShop(t, stage.Shop{
		Writers:  []stage.Writer{{With: "JDBC", Program: program("shop.Write", "jdbc")}, {With: "Spring", Program: program("shop.Write", "spring")}, {With: "Hibernate", Program: program("shop.Write", "hibernate")}},
		Consumer: program("shop.Consume"), Traps: program("shop.Traps"),
		Refused: map[string]string{
			"setString":                          "42883",
			"setString with ?::jsonb":            "ok",
			"PGobject of json":                   "42883",
			"PGobject of jsonb":                  "ok",
			"insert":                             "ok",
			"insert with a text as the key":      "42804",
			"insert with RETURN_GENERATED_KEYS":  "42501",
			"Spring, a text":                     "42883",
			"Hibernate, the outbox as an entity": "42501",
		},
	})
}

// tool is a program of the JDK: that of JAVA_HOME, otherwise the one on PATH.
func tool(name string) string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", name)
	}
	return name
}
