package awskeys

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
)

// readFile reads the keys from a file. Its error shows nothing of the file's content.
func readFile(path, profile string, now time.Time) (Keys, error) {
	raw, err := config.ReadFile("kafka.sasl_aws_credentials_file", path)
	if err != nil {
		return Keys{}, err
	}
	k, err := parse(raw, profile)
	if err == nil {
		err = k.check(now)
	}
	if err != nil {
		return Keys{}, fmt.Errorf("kafka.sasl_aws_credentials_file: the keys in the file %s cannot be used: %w", path, err)
	}
	return k, nil
}

// parse reads both formats: the JSON of credential_process begins with a brace, which no shared file can.
func parse(raw []byte, profile string) (Keys, error) {
	raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff")))
	if bytes.HasPrefix(raw, []byte("{")) {
		return parseProcess(raw)
	}
	return parseShared(string(raw), profile)
}

// document is what AWS's programs and endpoints write in JSON: credential_process calls the token SessionToken, the
// endpoints of containers call it Token.
type document struct {
	Version         *int
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey config.Secret
	SessionToken    config.Secret
	Token           config.Secret
	Expiration      string
}

// decode reads one, and no error quotes it.
func decode(raw []byte) (document, Keys, error) {
	var d document
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, Keys{}, errors.New("it is not the JSON that was expected")
	}
	k := Keys{AccessKeyID: d.AccessKeyID, SecretAccessKey: d.SecretAccessKey, SessionToken: d.SessionToken}
	if k.SessionToken == "" {
		k.SessionToken = d.Token
	}
	if d.Expiration != "" {
		var err error
		if k.Expires, err = time.Parse(time.RFC3339, d.Expiration); err != nil {
			return d, Keys{}, errors.New("its Expiration is not a time such as 2026-01-02T03:04:05Z")
		}
	}
	return d, k, nil
}

func parseProcess(raw []byte) (Keys, error) {
	d, k, err := decode(raw)
	if err != nil {
		return Keys{}, err
	}
	if d.Version != nil && *d.Version != 1 {
		return Keys{}, fmt.Errorf("its Version is %d; only 1 is known", *d.Version)
	}
	return k, nil
}

// parseShared reads a profile of a shared credentials file: sections in brackets, lines of the form name = value,
// comments after # or ; at the beginning of a line.
func parseShared(text, profile string) (Keys, error) {
	var k Keys
	mine, found := false, false
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			name, rest, closed := strings.Cut(line[1:], "]")
			if rest = strings.TrimSpace(rest); !closed || rest != "" && rest[0] != '#' && rest[0] != ';' {
				return Keys{}, fmt.Errorf("line %d begins with a bracket and is not [profile]", i+1)
			}
			mine = strings.TrimSpace(name) == profile
			found = found || mine
			continue
		}
		name, value, cut := strings.Cut(line, "=")
		if !cut {
			return Keys{}, fmt.Errorf("line %d is neither [profile] nor name = value", i+1)
		}
		if !mine {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "aws_access_key_id":
			k.AccessKeyID = value
		case "aws_secret_access_key":
			k.SecretAccessKey = config.Secret(value)
		case "aws_session_token":
			k.SessionToken = config.Secret(value)
		}
	}
	if !found {
		return Keys{}, fmt.Errorf("it has no profile [%s]; AWS_PROFILE names another", profile)
	}
	return k, nil
}
