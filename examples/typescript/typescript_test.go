package typescript

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/postrider/postrider/examples/stage"
	"github.com/postrider/postrider/internal/testenv/npmtest"
)

func TestMain(m *testing.M) { stage.Main(m) }

// TestTypeScript compiles the shop, and runs it.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	folder := npmtest.Install(t, "shop", "typescript-example")
	out, err := os.MkdirTemp(folder, "out-") // beside node_modules, which programs look for above themselves
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(out) }) // of a cache
	compile := exec.CommandContext(t.Context(), "node", "node_modules/typescript/bin/tsc", "--outDir", out)
	compile.Dir = folder
	if said, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s", err, said)
	}
	program := func(name string) []string { return []string{"node", filepath.Join(out, name+".js")} }
	stage.RunShop(t, stage.Shop{
		Writers: []stage.Writer{{With: "pg", Program: program("write")}}, Consumer: program("consume"), Traps: program("traps"),
		Refused: map[string]string{
			"an object as JSON":                   "ok",
			"an array as JSON":                    "22P02",
			"an array as JSON, by JSON.stringify": "ok",
			"a string as JSON":                    "22P02",
			"a string as JSON, by JSON.stringify": "ok",
			"insert":                              "ok",
			"insert with returning":               "42501",
			"insert with a text as the key":       "22P02",
		},
	})
}
