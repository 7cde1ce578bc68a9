package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// No client is served without a key that works, and no error shows a key.
func TestMCPIsRefused(t *testing.T) {
	t.Parallel()
	const unknown = "pr_s3ntinelaaaaaaaa_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA00000000"
	db, empty := pgtest.New(t), pgtest.NewEmpty(t)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(unknown+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args, environ []string
		url           string
		code          int
		want          string
	}{
		"no key":           {url: db.URL, code: ExitUsage, want: "MCP_API_KEY"},
		"no such file":     {url: db.URL, args: []string{"--api-key-file", file + "x"}, code: ExitUsage, want: "--api-key-file"},
		"a key over HTTP":  {url: db.URL, args: []string{"--transport", "http", "--api-key-file", file}, code: ExitUsage, want: "each request brings its key"},
		"no transport":     {url: db.URL, args: []string{"--transport", "sse"}, code: ExitUsage, want: `--transport is "sse"`},
		"no database":      {environ: []string{"MCP_API_KEY=" + unknown}, code: ExitUsage, want: "DATABASE_URL"},
		"a wrong key":      {url: db.URL, environ: []string{"MCP_API_KEY=" + unknown}, code: ExitFailure, want: "the API key is not known"},
		"in a file":        {url: db.URL, args: []string{"--api-key-file", file}, code: ExitFailure, want: "the API key is not known"},
		"not migrated":     {url: empty.URL, environ: []string{"MCP_API_KEY=" + unknown}, code: ExitFailure, want: "postrider migrate up"},
		"a taken address":  {url: db.URL, args: []string{"--transport", "http", "--mcp-address", "192.0.2.1:1"}, code: ExitFailure, want: "choose another mcp.address"},
		"a page of no one": {url: db.URL, args: []string{"--mcp-allowed-origins", "*"}, environ: []string{"MCP_API_KEY=" + unknown}, code: ExitUsage, want: "mcp.allowed_origins"},
	} {
		r := postrider(t, append(c.environ, "DATABASE_URL="+c.url), append([]string{"mcp"}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr+r.stdout, "s3ntinel") {
			t.Errorf("%s: exit code %d, want %d: %s%s", name, r.code, c.code, r.stdout, r.stderr)
		}
	}
}
