package mcp_test

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
)

// A program whose client neither speaks nor goes ends when it is told to.
func TestStdioEndsBySignal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "mcp")
	cmd.Env = []string{asProgram + "=1", "MCP_API_KEY=" + r.keys[access.Read], "DATABASE_URL=" + r.url}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil { // now it waits for more
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
