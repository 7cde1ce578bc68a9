package config

import (
	"errors"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// DatabaseURL is a PostgreSQL connection string. However it is printed, logged or marshalled, it
// shows only user, host, port, database and the parameters of a URL that shownParameters names; Reveal returns the whole.
type DatabaseURL string

// Reveal returns the connection string with its password, for connecting.
func (u DatabaseURL) Reveal() string { return string(u) }

// shownParameters are what a connection string may say behind its question mark without a secret in it. Who cannot see them
// cannot see whether a connection is encrypted, and to whom.
var shownParameters = []string{"sslmode", "sslrootcert", "sslcert", "target_session_attrs", "connect_timeout", "application_name"}

// String returns the connection string without its secrets. It is built from the parts that may be shown, not by taking
// the secret parts away.
func (u DatabaseURL) String() string {
	if u == "" {
		return ""
	}
	c, err := pgconn.ParseConfig(string(u))
	if err != nil {
		return "(not a valid connection string)"
	}
	shown := url.URL{Scheme: "postgres", User: url.User(c.User), Path: "/" + c.Database}
	parameters := url.Values{}
	if given, err := url.Parse(string(u)); err == nil {
		for _, name := range shownParameters {
			if value := given.Query().Get(name); value != "" {
				parameters.Set(name, value)
			}
		}
	}
	if strings.HasPrefix(c.Host, "/") {
		parameters.Set("host", c.Host)
		parameters.Set("port", strconv.Itoa(int(c.Port)))
	} else {
		shown.Host = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	}
	if c.Password != "" {
		shown.User = url.UserPassword(c.User, "xxxxx")
	}
	shown.RawQuery = parameters.Encode()
	return shown.String()
}

// place is the server and the database that the connection string leads to; empty where it is not valid.
func (u DatabaseURL) place() string {
	c, err := pgconn.ParseConfig(string(u))
	if err != nil {
		return ""
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))) + "/" + c.Database
}

// passwordWord is how a connection string of keywords, or the parameters of a URL, give a password.
var passwordWord = regexp.MustCompile(`(^|[\s?&])password\s*=\s*[^\s&]`)

// hasPassword reports whether the connection string itself has a password.
func (u DatabaseURL) hasPassword() bool {
	if parsed, err := url.Parse(string(u)); err == nil && parsed.User != nil {
		if password, _ := parsed.User.Password(); password != "" {
			return true
		}
	}
	return passwordWord.MatchString(string(u))
}

// GoString is String.
func (u DatabaseURL) GoString() string { return u.String() }

// LogValue is String.
func (u DatabaseURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText is String, for JSON and YAML.
func (u DatabaseURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// checkDatabaseURL describes the mistake without the text of any other error: other errors quote the string, or the very
// characters of a password that break it.
func checkDatabaseURL(text string) error {
	if text == "" {
		return errors.New("it must not be empty")
	}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		if strings.Contains(text, "://") {
			return errors.New("it must begin with postgres:// or postgresql://")
		}
		if _, err := pgconn.ParseConfig(text); err != nil || !strings.Contains(text, "=") {
			return errors.New("it must be postgres://user:password@host:port/database, or keyword=value pairs such as host=localhost dbname=app")
		}
		return nil
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return errors.New("it is not a valid URL: write special characters of user and password as percent escapes (@ is %40, / is %2F, # is %23, % is %25)")
	}
	if strings.Contains(parsed.User.String(), "@") || strings.Contains(parsed.Host, "@") || strings.Count(strings.SplitN(strings.SplitN(text, "://", 2)[1], "/", 2)[0], "@") > 1 {
		// The client would take what follows the first @ for the host, and everybody would show it.
		return errors.New("there is more than one @ before the path: write that of user and password as %40")
	}
	if port := parsed.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("its port must be a number from 1 to 65535")
		}
	}
	if _, err := pgconn.ParseConfig(text); err != nil {
		return errors.New("the PostgreSQL client does not accept it: check the parameters after the question mark (sslmode, sslrootcert, sslcert, target_session_attrs, connect_timeout …) and the files they name")
	}
	return nil
}
