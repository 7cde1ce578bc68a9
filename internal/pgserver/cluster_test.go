//go:build unix && !aix && !solaris

package pgserver

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// write makes a file and the directories to it.
func write(t *testing.T, content string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir string)
		exists  bool
		want    []string // in the error
	}{
		"nothing yet":  {func(*testing.T, string) {}, false, nil},
		"same version": {func(t *testing.T, dir string) { write(t, "15\n", dir, dataName, "PG_VERSION") }, true, nil},
		"another major version": {func(t *testing.T, dir string) { write(t, "13\n", dir, dataName, "PG_VERSION") }, false,
			[]string{"written by PostgreSQL 13", "are 15.18", BinEnv}},
		"something else": {func(t *testing.T, dir string) { write(t, "", dir, dataName, "photo.jpg") }, false,
			[]string{"holds no PostgreSQL data"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster{dir: t.TempDir(), bin: Binaries{Dir: "/opt/bin", Version: "15.18", Major: 15}}
			test.prepare(t, c.dir)
			exists, err := c.checkVersion()
			if exists != test.exists || (err == nil) != (test.want == nil) {
				t.Fatalf("exists %v, %v", exists, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
		})
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	c := cluster{dir: t.TempDir()}
	if _, err := c.readPassword(true); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("data without a password: %v", err)
	}
	made, err := c.readPassword(false)
	if err != nil || len(made) < 20 {
		t.Fatalf("made %q, %v", made, err)
	}
	if again, err := c.readPassword(true); err != nil || again != made {
		t.Errorf("read %q, %v; made %q", again, err, made)
	}
}

func TestBlockedAt(t *testing.T) {
	t.Parallel()
	root := openDir(t)
	deep := filepath.Join(root, "closed", "open")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Dir(deep)
	if err := os.Chmod(closed, 0o750); err != nil {
		t.Fatal(err)
	}
	uid, gid, err := ownerOf(closed)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		account account
		want    string
	}{
		"owner":    {account{uid: uid, gid: gid + 1}, ""},
		"group":    {account{uid: uid + 1, gid: gid}, ""},
		"stranger": {account{uid: uid + 1, gid: gid + 1, name: "stranger"}, closed},
	} {
		if got, _ := test.account.blockedAt(deep); got != test.want {
			t.Errorf("%s is blocked at %q, want %q", name, got, test.want)
		}
	}
	stranger := account{uid: uid + 1, gid: gid + 1, name: "stranger"}
	if err := stranger.explain(deep, "go away"); err == nil || !strings.Contains(err.Error(), "chmod o+x "+closed) {
		t.Errorf("%v", err)
	}
	if err := stranger.explain(root, "go away"); err != nil {
		t.Errorf("nothing blocks, but: %v", err)
	}
}

func TestPIDFile(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]pidFile{
		"":               {},
		"\n":             {},
		"garbage\nx\n":   {},
		"-5\n":           {},
		"123\n/data\n17": {pid: 123},
		"123\n/data\n1700000000\n5432\n\n127.0.0.1\n  1 2\nready   \n": {pid: 123, status: "ready"},
	} {
		data := t.TempDir()
		write(t, content, data, pidFileName)
		if got := readPIDFile(data); got != want {
			t.Errorf("%q reads as %+v, want %+v", content, got, want)
		}
	}
	if got := readPIDFile(t.TempDir()); got != (pidFile{}) {
		t.Errorf("no file reads as %+v", got)
	}
}

// TestPIDOfAnotherProcess: the number in a left-over pid file may belong to any process by now.
func TestPIDOfAnotherProcess(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	file := write(t, strconv.Itoa(os.Getpid())+"\n"+data+"\n", data, pidFileName)
	if err := endSurvivors(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the pid file that names this very process is still there: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	last := ""
	for _, entry := range environment() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "PG") || name == "LANG" {
			t.Errorf("%s is passed on", name)
		}
		last = entry
	}
	if last != "LC_ALL=C" {
		t.Errorf("the last is %s", last)
	}
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"Port 70000":                         {Port: 70000},
		"Port -1":                            {Port: -1},
		"cuts names at 63 bytes":             {Database: strings.Repeat("x", 64)},
		"listen_addresses is decided":        {Settings: map[string]string{"listen_addresses": "*"}},
		`"a b" is not the name`:              {Settings: map[string]string{"a b": "c"}},
		`"" is not the name of a parameter`:  {Settings: map[string]string{"": "c"}},
		"unix_socket_directories is decided": {Settings: map[string]string{"unix_socket_directories": "/x"}},
	} {
		if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	var next strings.Builder
	tl := &tail{next: &next}
	for i := range 2000 {
		if _, err := tl.Write([]byte(strconv.Itoa(i) + " line\n")); err != nil {
			t.Fatal(err)
		}
	}
	if got := tl.String(); len(got) > tailBytes || !strings.HasSuffix(got, "1999 line") {
		t.Errorf("%d bytes, …%q", len(got), got[len(got)-20:])
	}
	if !strings.HasPrefix(next.String(), "0 line\n1 line\n") {
		t.Error("the output is not passed on in full")
	}
}
