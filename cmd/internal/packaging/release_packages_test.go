package packaging

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/postrider/postrider/cmd/internal/cli"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

const linuxFiles = "../../../deploy/release/linux"

// scratch makes a folder that a package can be installed into as if it were a machine: it has a shell, what makes users, and
// these programs, all with their libraries.
func scratch(t *testing.T, programs ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		logtest.NotTested(t, "only root can install a package into a folder, with chroot")
	}
	programs = append(programs, "sh", "getent", "groupadd", "useradd")
	for _, program := range append(programs, "ldd", "chroot") {
		if _, err := exec.LookPath(program); err != nil {
			logtest.NotTested(t, "there is no "+program+" to install packages with (Debian: dpkg rpm passwd)")
		}
	}
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"etc", "bin", "usr", "dev", "tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/lib/rpm", "var/log"} {
		if err := os.MkdirAll(filepath.Join(folder, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/shadow": "root:*:1::::::\n", "etc/gshadow": "root:*::\n",
		"etc/nsswitch.conf": "passwd: files\ngroup: files\n", "var/lib/dpkg/status": "", "dev/null": ""} {
		write(t, filepath.Join(folder, name), text, 0o644)
	}
	copied := map[string]bool{}
	take := func(from, to string) {
		t.Helper()
		if to = filepath.Join(folder, to); copied[to] {
			return
		}
		copied[to] = true
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, to, read(t, from), 0o755)
	}
	library := regexp.MustCompile(`(?m)(/\S+) \(0x`)
	for _, program := range programs {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		take(path, filepath.Join("/bin", program))
		out, err := exec.CommandContext(t.Context(), "ldd", path).CombinedOutput()
		if err != nil {
			t.Fatalf("ldd %s: %v\n%s", path, err, out)
		}
		for _, m := range library.FindAllStringSubmatch(string(out), -1) {
			take(m[1], m[1])
		}
	}
	return folder
}

// command runs a program, which must succeed.
func mustRun(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "PATH=/bin:/usr/bin:/sbin:/usr/sbin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkInstalled looks at a folder that a package was installed into.
func checkInstalled(t *testing.T, folder string) {
	t.Helper()
	user := regexp.MustCompile(`(?m)^postrider:x:(\d+):(\d+):[^:\n]*:([^:\n]*):([^:\n]*)$`).FindStringSubmatch(read(t, filepath.Join(folder, "etc", "passwd")))
	if user == nil || user[1] == "0" || user[3] != "/nonexistent" || user[4] != "/usr/sbin/nologin" {
		t.Fatalf("the user is %q", user)
	}
	if !strings.Contains(read(t, filepath.Join(folder, "etc", "group")), "\npostrider:x:"+user[2]+":") {
		t.Errorf("the group is not %s", user[2])
	}
	for name, want := range map[string]string{
		"usr/bin/postrider":                               "-rwxr-xr-x 0:0",
		"usr/lib/systemd/system/postrider.service":        "-rw-r--r-- 0:0",
		"etc/postrider":                                   "drwxr-x--- 0:" + user[2],
		"etc/postrider/postrider.yaml":                    "-rw-r----- 0:" + user[2],
		"etc/postrider/environment":                       "-rw------- 0:0",
		"usr/share/man/man1/postrider-dlq-list.1.gz":      "-rw-r--r-- 0:0",
		"usr/share/bash-completion/completions/postrider": "-rw-r--r-- 0:0",
		"usr/share/doc/postrider/postrider.example.yaml":  "-rw-r--r-- 0:0",
		"usr/share/doc/postrider/copyright":               "-rw-r--r-- 0:0",
	} {
		if got := ownedAs(t, filepath.Join(folder, name)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	// What may hold secrets is closed to all other logins, and nothing is open to their writing.
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		settings := strings.HasPrefix(path, filepath.Join(folder, "etc", "postrider"))
		if mode := info.Mode().Perm(); mode&0o002 != 0 || settings && mode&0o007 != 0 {
			t.Errorf("%s has the mode %o", path, mode)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if out := mustRun(t, filepath.Join(folder, "usr", "bin", "postrider")); out != "the program\n" {
		t.Errorf("the installed program says %q", out)
	}
}

// ownedAs is a file's mode, owner and group.
func ownedAs(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Error(err)
		return ""
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%s %d:%d", info.Mode(), stat.Uid, stat.Gid)
}

// checkDeb has dpkg install the package, install it over a changed settings file, remove it, and purge it.
func checkDeb(t *testing.T, deb string) {
	folder := scratch(t, "dpkg", "dpkg-deb", "dpkg-split", "tar", "rm")
	fields := mustRun(t, "dpkg-deb", "--field", deb, "Package", "Version", "Maintainer", "Depends")
	if !strings.Contains(fields, "Package: postrider\n") || !strings.Contains(fields, "Version: 0.1.0~test.1\n") || !strings.Contains(fields, "Depends: passwd\n") {
		t.Errorf("the package says\n%s", fields)
	}
	// Inside of the folder: from outside, dpkg looks for the group in the files of this machine.
	dpkg := func(args ...string) {
		t.Helper()
		mustRun(t, "chroot", append([]string{folder, "dpkg", "--force-depends", "--force-bad-path"}, args...)...)
	}
	write(t, filepath.Join(folder, "tmp", "postrider.deb"), read(t, deb), 0o600)
	deb = "/tmp/postrider.deb"
	dpkg("--install", deb)
	checkInstalled(t, folder)

	settings := filepath.Join(folder, "etc", "postrider", "postrider.yaml")
	write(t, settings, "# mine\n", 0o640)
	dpkg("--install", deb)
	if got := read(t, settings); got != "# mine\n" {
		t.Errorf("the settings are overwritten: %s", got)
	}
	dpkg("--remove", "postrider")
	if _, err := os.Stat(filepath.Join(folder, "usr", "bin", "postrider")); err == nil {
		t.Error("the program is left")
	}
	if got := read(t, settings); got != "# mine\n" {
		t.Errorf("the settings are gone with the program: %s", got)
	}
	dpkg("--purge", "postrider")
	if _, err := os.Stat(filepath.Join(folder, "etc", "postrider")); err == nil {
		t.Error("the settings are left after a purge")
	}
}

// checkRPM has rpm read the package, install it, install it over a changed settings file, and remove it.
func checkRPM(t *testing.T, file string) {
	folder := scratch(t)
	if _, err := exec.LookPath("rpm"); err != nil {
		logtest.NotTested(t, "there is no rpm to install packages with (Debian: rpm)")
	}
	said := mustRun(t, "rpm", "-qp", "--nosignature", "--qf", "%{NAME} %{VERSION}-%{RELEASE} %{LICENSE} %{BUILDHOST} %{BUILDTIME}\n", file)
	if want := fmt.Sprintf("postrider 0.1.0~test.1-1 Apache-2.0 postrider %d\n", releaseTime); !strings.HasSuffix(said, want) {
		t.Errorf("the package says %q, want %q", said, want)
	}
	if listed := mustRun(t, "rpm", "-qp", "--nosignature", "--configfiles", file); !strings.Contains(listed, "/etc/postrider/postrider.yaml\n") || !strings.Contains(listed, "/etc/postrider/environment\n") {
		t.Errorf("its settings files are\n%s", listed)
	}
	if needs := mustRun(t, "rpm", "-qp", "--nosignature", "--requires", file); !strings.Contains(needs, "/usr/sbin/useradd\n") {
		t.Errorf("it needs\n%s", needs)
	}
	rpm := func(args ...string) {
		t.Helper()
		mustRun(t, "rpm", append([]string{"--root", folder, "--dbpath", "/var/lib/rpm"}, args...)...)
	}
	rpm("--install", "--nodeps", "--nosignature", file)
	checkInstalled(t, folder)

	settings := filepath.Join(folder, "etc", "postrider", "postrider.yaml")
	write(t, settings, "# mine\n", 0o640)
	rpm("--upgrade", "--replacepkgs", "--nodeps", "--nosignature", file)
	if got := read(t, settings); got != "# mine\n" {
		t.Errorf("the settings are overwritten: %s", got)
	}
	rpm("--erase", "postrider")
	if _, err := os.Stat(filepath.Join(folder, "usr", "bin", "postrider")); err == nil {
		t.Error("the program is left")
	}
	if _, err := os.Stat(settings + ".rpmsave"); err != nil {
		t.Errorf("changed settings are gone with the program: %v", err)
	}
}

// TestUnitFitsThePackage: the unit starts what the package installs, as the user that it makes, with settings that serve
// takes.
func TestUnitFitsThePackage(t *testing.T) {
	t.Parallel()
	unit := read(t, filepath.Join(linuxFiles, "postrider.service"))
	one := func(key string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(unit, -1)
		if len(m) != 1 {
			t.Fatalf("the unit has %s %d times", key, len(m))
		}
		return m[0][1]
	}
	args := strings.Fields(one("ExecStart"))
	if args[0] != "/usr/bin/postrider" || args[len(args)-1] != "/etc/postrider/postrider.yaml" {
		t.Errorf("the unit runs %q", args)
	}
	var help, errs bytes.Buffer
	if code := cli.Run(context.Background(), append(args[1:len(args)-2], "--help"), nil, &help, &errs); code != cli.ExitOK || !strings.Contains(help.String(), args[len(args)-2]+" ") {
		t.Errorf("postrider has no %q: %s", args[1:], errs.String())
	}
	if scripts := read(t, filepath.Join(linuxFiles, "before-install.sh")); !strings.Contains(scripts, "groupadd --system "+one("Group")+"\n") || !strings.HasSuffix(scripts, " "+one("User")+"\n") {
		t.Errorf("the unit runs as %s:%s, the package makes\n%s", one("User"), one("Group"), scripts)
	}
	// A panic of Go ends with 2, as a wrong setting does: no exit code keeps the process from being started again.
	if one("EnvironmentFile") != "-/etc/postrider/environment" || one("Restart") != "on-failure" || one("StartLimitIntervalSec") != "0" || strings.Contains(unit, "RestartPreventExitStatus") {
		t.Errorf("secrets are in %s, or the process is not started again after each failure:\n%s", one("EnvironmentFile"), unit)
	}
	if _, err := config.Load(config.From{File: filepath.Join(linuxFiles, "postrider.yaml")}); err != nil {
		t.Errorf("the settings file of the packages: %v", err)
	}
	// The variables that the file of secrets suggests are settings.
	var environ []string
	for _, m := range regexp.MustCompile(`(?m)^#([A-Z_]+=.*)$`).FindAllStringSubmatch(read(t, filepath.Join(linuxFiles, "environment")), -1) {
		environ = append(environ, m[1])
	}
	known := map[string]bool{}
	for _, k := range config.Keys() {
		known[k.Env()] = true
	}
	for _, e := range environ {
		if name, _, _ := strings.Cut(e, "="); !known[name] {
			t.Errorf("there is no setting %s", name)
		}
	}
	if len(environ) < 2 {
		t.Errorf("only %q", environ)
	}
}
