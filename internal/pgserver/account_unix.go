//go:build unix && !aix && !solaris

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that PostgreSQL runs as.
type account struct {
	name     string
	uid, gid int
	// other: this process is root and hands over, because PostgreSQL refuses to run as root.
	other bool
}

// chooseAccount decides who runs the server: this process's own user; or, when that is root,
// the owner of existing data, else the user postgres, else the user nobody.
func chooseAccount(data string) (account, error) {
	own := account{name: userName(os.Geteuid()), uid: os.Geteuid(), gid: os.Getegid()}
	owner, group, err := ownerOf(data)
	exists := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return account{}, fmt.Errorf("pgserver: %w", err)
	}
	switch {
	case own.uid != 0 && exists && owner != own.uid:
		return account{}, fmt.Errorf("pgserver: %s belongs to user %s and this process runs as %s; run it as %s or as root, or give the files away with chown -R",
			data, userName(owner), own.name, userName(owner))
	case own.uid != 0:
		return own, nil
	case exists && owner == 0:
		return account{}, fmt.Errorf("pgserver: %s belongs to root, and PostgreSQL refuses to run as root; give it to another user with chown -R", data)
	case exists:
		return account{name: userName(owner), uid: owner, gid: group, other: true}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if errUID == nil && errGID == nil && uid != 0 {
			return account{name: name, uid: uid, gid: gid, other: true}, nil
		}
	}
	return account{}, errors.New("pgserver: PostgreSQL refuses to run as root, and this machine has neither a user postgres nor a user nobody; create one, or do not run as root")
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "with the id " + strconv.Itoa(uid)
}

func ownerOf(path string) (uid, gid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("the owner of %s is not known on this system", path)
	}
	return int(stat.Uid), int(stat.Gid), nil
}

// give makes the account the owner of a file that this process created.
func (a account) give(path string) error {
	if !a.other {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// dirMode is the mode of directories on the way to the data: closed, or open to pass through
// for an account that is not ours.
func (a account) dirMode() os.FileMode {
	if a.other {
		return 0o711
	}
	return 0o700
}

func (a account) credential() *syscall.Credential {
	if !a.other {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// explain names the directory that keeps the account from path, when the mode bits show it.
func (a account) explain(path, remedy string) error {
	dir, mode := a.blockedAt(path)
	if dir == "" {
		return nil
	}
	return fmt.Errorf("pgserver: PostgreSQL refuses to run as root, so it runs as the user %s, who cannot enter %s (mode %s) on the way to %s; allow it with `chmod o+x %s`, or %s",
		a.name, dir, mode, path, dir, remedy)
}

// blockedAt returns the first directory from the root down to path that the account may not
// pass, and its mode; nothing when the mode bits let it pass.
func (a account) blockedAt(path string) (dir string, mode os.FileMode) {
	if parent := filepath.Dir(path); parent != path {
		if dir, mode = a.blockedAt(parent); dir != "" {
			return dir, mode
		}
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return "", 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", 0
	}
	bit := os.FileMode(0o001)
	switch {
	case int(stat.Uid) == a.uid:
		bit = 0o100
	case int(stat.Gid) == a.gid:
		bit = 0o010
	}
	if info.Mode().Perm()&bit == 0 {
		return path, info.Mode()
	}
	return "", 0
}
