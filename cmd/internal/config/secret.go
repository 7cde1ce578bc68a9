package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
)

// Secret is a text that is never shown, however it is printed, logged or marshalled; Reveal returns it.
type Secret string

// Reveal returns the secret, for logging in.
func (s Secret) Reveal() string { return string(s) }

// String says only whether there is a secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "xxxxx"
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String, for JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// maxSecretFile is more than any password, token or chain of certificates has, in bytes.
const maxSecretFile = 1 << 20

// ReadFile reads a file that a setting names. The error names the setting and the file and shows nothing of the file's
// content.
func ReadFile(setting, path string) ([]byte, error) {
	raw, err := readBounded(path)
	if err != nil {
		if of, ok := errors.AsType[*fs.PathError](err); ok {
			err = of.Err // the path is said here
		}
		return nil, fmt.Errorf("%s: the file %s cannot be read: %w", setting, path, err)
	}
	return raw, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxSecretFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxSecretFile)
	}
	return raw, nil
}

// ReadSecretFile reads a file that has nothing but a password or a token; an end of line after it is none of it.
func ReadSecretFile(setting, path string) (string, error) {
	raw, err := ReadFile(setting, path)
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	switch {
	case text == "":
		return "", fmt.Errorf("%s: the file %s is empty", setting, path)
	case strings.ContainsAny(text, "\x00\r\n"):
		return "", fmt.Errorf("%s: the file %s has more than one line; it must have nothing but the secret", setting, path)
	}
	return text, nil
}

// ErrPassword: the file with the password of a database cannot be used.
var ErrPassword = errors.New("no password")

// Password reads the password of the database where a file has it; otherwise it is empty. Its errors wrap ErrPassword.
func (d Database) Password() (string, error) {
	if d.PasswordFile == "" {
		return "", nil
	}
	text, err := ReadSecretFile("password_file", d.PasswordFile)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrPassword, err)
	}
	return text, err
}
