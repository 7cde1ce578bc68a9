//go:build unix && !aix && !solaris

package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The names in Options.Dir, besides the lock.
const (
	dataName     = "data"     // PostgreSQL's data directory
	newDataName  = "data.new" // the same while initdb works on it
	passwordName = "password"
)

// cluster is a directory with a server's files, locked for us.
type cluster struct {
	dir       string // absolute, without symbolic links
	temporary bool
	lock      *dirLock
	account   account
	bin       Binaries
	password  string
	fresh     bool // the data was made just now
	log       io.Writer
}

func (c *cluster) data() string { return filepath.Join(c.dir, dataName) }

// openCluster locks the directory, ends what still runs in it, and makes the data if there is
// none yet.
func openCluster(ctx context.Context, o Options) (c *cluster, err error) {
	c = &cluster{bin: o.Binaries, log: o.Log, temporary: o.Dir == ""}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
			c = nil
		}
	}()
	if c.temporary {
		sweepTemporary(ctx, o.TempDir)
		err = c.lockTemporary(o.TempDir)
	} else {
		err = c.lockPersistent(o.Dir)
	}
	if err != nil {
		return c, err
	}
	if c.bin.Dir == "" {
		if c.bin, err = Find(); err != nil {
			return c, err
		}
	}
	if err := c.checkAccess(ctx); err != nil {
		return c, err
	}
	if err := endSurvivors(ctx, c.data()); err != nil {
		return c, err
	}
	exists, err := c.checkVersion()
	if err != nil {
		return c, err
	}
	if c.password, err = c.readPassword(exists); err != nil {
		return c, err
	}
	if !exists {
		c.fresh = true
		return c, c.initialise(ctx)
	}
	return c, nil
}

func (c *cluster) lockPersistent(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("pgserver: Dir %s: %w", dir, err)
	}
	if c.account, err = chooseAccount(filepath.Join(abs, dataName)); err != nil {
		return err
	}
	if err := os.MkdirAll(abs, c.account.dirMode()); err != nil {
		return fmt.Errorf("pgserver: create Dir: %w", err)
	}
	if c.dir, err = filepath.EvalSymlinks(abs); err != nil {
		return fmt.Errorf("pgserver: Dir %s: %w", dir, err)
	}
	c.lock, err = lockDir(c.dir)
	return err
}

// close gives the directory back, and removes it when it was temporary.
func (c *cluster) close() error {
	if c.lock == nil {
		return nil
	}
	var errs []error
	if c.temporary {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	errs = append(errs, c.lock.release())
	c.lock = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("pgserver: give %s back: %w", c.dir, err)
	}
	return nil
}

// checkAccess proves that the account that root hands over to can enter the directory and run
// the binaries, by doing both.
func (c *cluster) checkAccess(ctx context.Context) error {
	if !c.account.other {
		return nil
	}
	err := c.run(ctx, io.Discard, "postgres", "--version")
	if err == nil {
		return nil
	}
	if blocked := c.account.explain(c.dir, "choose another directory for the data (Options.Dir)"); blocked != nil {
		return blocked
	}
	if blocked := c.account.explain(c.bin.Dir, "install PostgreSQL where every user can run it"); blocked != nil {
		return blocked
	}
	return fmt.Errorf("pgserver: PostgreSQL refuses to run as root, and as the user %s it cannot be run in %s: %w", c.account.name, c.dir, err)
}

// checkVersion reports whether there is data, and refuses data of another major version.
func (c *cluster) checkVersion() (exists bool, err error) {
	raw, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(c.data()); err == nil {
			return false, fmt.Errorf("pgserver: %s exists but holds no PostgreSQL data (it has no file PG_VERSION); move it away or choose another Dir", c.data())
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("pgserver: read the version of the data: %w", err)
	}
	written := strings.TrimSpace(string(raw))
	if written != strconv.Itoa(c.bin.Major) {
		return false, fmt.Errorf("pgserver: %s was written by PostgreSQL %s, and the binaries in %s are %s, which cannot read it; set %s to binaries of version %s, or remove %s to begin with an empty database",
			c.data(), written, c.bin.Dir, c.bin.Version, BinEnv, written, c.dir)
	}
	return true, nil
}

// readPassword reads the superuser's password, or makes one for data yet to be made.
func (c *cluster) readPassword(dataExists bool) (string, error) {
	file := filepath.Join(c.dir, passwordName)
	raw, err := os.ReadFile(file)
	if err == nil && len(raw) > 0 {
		return strings.TrimSpace(string(raw)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("pgserver: read the password: %w", err)
	}
	if dataExists {
		return "", fmt.Errorf("pgserver: %s is missing or empty, and the data in %s cannot be opened without it; restore it, or remove %s to begin with an empty database",
			file, c.data(), c.dir)
	}
	password := rand.Text()
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("pgserver: keep the password: %w", err)
	}
	return password, nil
}

// initialise runs initdb beside the final place and renames, so that a killed initdb leaves
// nothing that looks like data.
func (c *cluster) initialise(ctx context.Context) error {
	fresh := filepath.Join(c.dir, newDataName)
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("pgserver: remove an unfinished data directory: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("pgserver: create the data directory: %w", err)
	}
	// initdb takes the password from a file that it can read; ours is closed to its account.
	passwordFile := filepath.Join(c.dir, passwordName+".initdb")
	defer os.Remove(passwordFile)
	if err := os.WriteFile(passwordFile, []byte(c.password+"\n"), 0o600); err != nil {
		return fmt.Errorf("pgserver: write the password for initdb: %w", err)
	}
	for _, path := range []string{fresh, passwordFile} {
		if err := c.account.give(path); err != nil {
			return fmt.Errorf("pgserver: hand the data directory to the user %s: %w", c.account.name, err)
		}
	}
	err := c.run(ctx, c.log, "initdb", "--pgdata="+fresh, "--username="+Role, "--auth=scram-sha-256",
		"--pwfile="+passwordFile, "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if err != nil {
		return fmt.Errorf("pgserver: initdb of PostgreSQL %s in %s: %w", c.bin.Version, c.dir, err)
	}
	if err := os.Rename(fresh, c.data()); err != nil {
		return fmt.Errorf("pgserver: put the data directory in its place: %w", err)
	}
	return nil
}

// command prepares one of the server's programs under the account.
func (c *cluster) command(program string, atParentsDeath syscall.Signal, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin.Dir, program), args...)
	cmd.Dir = c.dir
	cmd.Env = environment()
	cmd.SysProcAttr = attributes(c.account, atParentsDeath)
	return cmd
}

// run runs a program to its end, and ends it with ctx.
func (c *cluster) run(ctx context.Context, log io.Writer, program string, args ...string) error {
	p, err := launch(c.command(program, syscall.SIGTERM, args...), log)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = syscall.Kill(-p.pid(), syscall.SIGTERM)
		<-p.done
		return fmt.Errorf("%s was ended: %w", program, context.Cause(ctx))
	}
	if p.err != nil {
		return fmt.Errorf("%w; it said:\n%s", p.err, p.log)
	}
	return nil
}

// environment is ours without what would change the server's behaviour or language.
func environment() []string {
	var env []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "LC_") || name == "LANG" || name == "LANGUAGE" || name == "TZ" {
			continue
		}
		env = append(env, entry)
	}
	// On macOS a server without LC_ALL becomes multi-threaded and refuses to start.
	return append(env, "LC_ALL=C")
}
