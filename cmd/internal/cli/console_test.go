package cli

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
)

func TestConsoleLinks(t *testing.T) {
	t.Parallel()
	d := newRig(t, 0)
	d.run(ExitFailure, "console link --name ada --scopes read", "grant postrider_relay")
	d.runAs(d.owner, ExitUsage, "console link", "--key", "--scopes")
	d.runAs(d.owner, ExitUsage, "console link --key x --scopes read", "either --key")
	d.runAs(d.owner, ExitUsage, "console link --name ada --scopes everything", "everything")
	d.runAs(d.owner, ExitUsage, "console link --scopes read", "the name of the link has 0 bytes")
	d.runAs(d.owner, ExitUsage, "console link --name a\u202eb --scopes read", "request refused: the name of the link has control characters, marks of direction or invisible characters")
	d.runAs(d.owner, ExitFailure, "console link --key nobody", "postrider apikey list")
	for _, age := range []string{"1000d", "169h", "0s"} {
		d.runAs(d.owner, ExitUsage, "console link --name ada --scopes read --expires-in "+age, `--expires-in is "`+age+`"; it must be from 1s to 7d`)
	}
	d.runAs(d.owner, ExitOK, "console link --name ada --scopes read --expires-in 7d", "/login?link=")
	made := decode[signInLink](t, d.runAs(asRole(t, d.db, "postrider_relay"), ExitOK, "console link --name ada --scopes read,resolve --expires-in 1h -o json"))
	if in := time.Until(made.ExpiresAt); in < 55*time.Minute || in > time.Hour {
		t.Errorf("it may be used for %v", in)
	}
	link, err := url.Parse(made.URL)
	if err != nil || link.Host != "127.0.0.1:8080" || link.Path != "/login" {
		t.Fatalf("the link is %s", made.URL)
	}
	session, _, err := access.NewStore(d.db.Pool(t)).SessionByLink(t.Context(), link.Query().Get("link"), time.Hour)
	if err != nil || session.Name != "ada" {
		t.Errorf("it opens %+v, %v", session, err)
	}
	if plain := d.runAs(d.owner, ExitOK, "console link --name ada --scopes read"); !strings.HasPrefix(plain, "http://127.0.0.1:8080/login?link=prl_") {
		t.Errorf("it prints %s", plain)
	}
	if err := access.NewStore(d.db.Pool(t)).SetConsoleURL(t.Context(), "http://127.0.0.1:4711"); err != nil {
		t.Fatal(err)
	}
	d.runAs(asRole(t, d.db, "postrider_relay"), ExitOK, "console link --name ada --scopes read", "http://127.0.0.1:4711/login?link=prl_")
}

// TestAccessToSources: a source must be known to the settings or to the desk, or a person would see nothing and not know why.
func TestAccessToSources(t *testing.T) {
	t.Parallel()
	d := newRig(t, 0)
	relay := asRole(t, d.db, "postrider_relay")
	if _, err := d.db.Conn(t).Exec(t.Context(), `insert into postrider.dlq_source (source) values ('seen')`); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte("sources:\n  - name: orders\n    url: postgres://u@127.0.0.1:1/orders\n    topics: {allow: [orders]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, says := range map[string]string{"console link": "/login?link=", "apikey create": "pr_"} {
		command += " --name ada --scopes read"
		for _, known := range []string{" --source main", " --source seen --source main", " --source *", " --source orders --config " + file} {
			d.runAs(relay, ExitOK, command+known, says)
		}
		for _, unknown := range []string{" --source orders", " --source main --source ordres --config " + file} {
			d.runAs(relay, ExitFailure, command+unknown, "--source", "neither the settings nor the desk know a source \"ord", "postrider sources lists them")
		}
	}
}

func TestConsoleURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{":8080": "http://localhost:8080", "0.0.0.0:80": "http://localhost:80", "[::]:80": "http://localhost:80", "127.0.0.1:8080": "http://127.0.0.1:8080"} {
		if got := consoleURL(config.Config{HTTP: config.HTTP{Address: address}}, ""); got != want {
			t.Errorf("%s is reached at %s", address, got)
		}
	}
	if got := consoleURL(config.Config{Console: config.Console{URL: "https://postrider.example.com"}}, "http://127.0.0.1:4711"); got != "https://postrider.example.com" {
		t.Errorf("console.url is passed over: %s", got)
	}
}
