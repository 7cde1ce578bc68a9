package pgserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
)

// Role is the superuser that Start creates and that the URL uses.
const Role = "postrider"

// Options says which server Start runs.
type Options struct {
	// Dir keeps the server's files between runs: the data, the password of the superuser (mode
	// 0600) and a lock that gives the directory to one process at a time. It is created when it
	// is absent. When the process runs as root, PostgreSQL runs as another user, who must be
	// able to enter it. Defaults to a temporary directory, removed by Stop.
	Dir string
	// TempDir is where the temporary directory is made when Dir is empty. Defaults to the
	// system's place, os.TempDir.
	TempDir string
	// Binaries is the PostgreSQL to run, of the major version that wrote Dir. Defaults to what
	// Find finds.
	Binaries Binaries
	// Port is the TCP port on 127.0.0.1. Defaults to a free one, another with every start.
	Port int
	// PreferredPort is taken where Port is 0 and this one is free. Defaults to 0: none is preferred.
	PreferredPort int
	// Database is created when it is absent, and named in the URL. Defaults to "postrider".
	Database string
	// Settings are server parameters for this run, as in postgresql.conf; "fsync": "off" suits
	// tests. The address, the port and the socket directory are not for setting. Defaults to
	// PostgreSQL's own, with timezone and log_timezone UTC.
	Settings map[string]string
	// Log receives the output of initdb and the server's log. Writes must not block, or the
	// server does; errors of it are ignored. Defaults to nothing.
	Log io.Writer

	// outlive lets the server survive the death of this process, to test how the next Start
	// deals with it.
	outlive bool
}

func (o Options) withDefaults() Options {
	if o.Database == "" {
		o.Database = "postrider"
	}
	if o.TempDir == "" {
		o.TempDir = os.TempDir()
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	settings := map[string]string{"timezone": "UTC", "log_timezone": "UTC"}
	for name, value := range o.Settings {
		settings[name] = value
	}
	o.Settings = settings
	return o
}

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// ours are the settings that make the promise of this package: reachable on 127.0.0.1 alone.
var ours = []string{"listen_addresses", "port", "unix_socket_directories", "data_directory", "hba_file", "external_pid_file"}

func (o Options) validate() error {
	var problems []error
	if o.Port < 0 || o.Port > 65535 {
		problems = append(problems, fmt.Errorf("pgserver: Port %d: give 1 to 65535, or 0 for a free one", o.Port))
	}
	if o.PreferredPort < 0 || o.PreferredPort > 65535 {
		problems = append(problems, fmt.Errorf("pgserver: PreferredPort %d: give 1 to 65535, or 0 for none", o.PreferredPort))
	}
	if len(o.Database) > 63 {
		problems = append(problems, fmt.Errorf("pgserver: Database %q: PostgreSQL cuts names at 63 bytes", o.Database))
	}
	for name := range o.Settings {
		switch {
		case !settingName.MatchString(name):
			problems = append(problems, fmt.Errorf("pgserver: Settings: %q is not the name of a parameter", name))
		case slices.Contains(ours, name):
			problems = append(problems, fmt.Errorf("pgserver: Settings: %s is decided by this package; use Options.Port and Options.Dir", name))
		}
	}
	return errors.Join(problems...)
}
