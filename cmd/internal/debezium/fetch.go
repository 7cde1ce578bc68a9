package debezium

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// UserEnv and PasswordEnv are the environment variables with the login at Connect's REST API.
const (
	UserEnv     = "CONNECT_USERNAME"
	PasswordEnv = "CONNECT_PASSWORD"
)

const (
	fetchLimit = 15 * time.Second
	maxBytes   = 1 << 20
)

// Load reads the configuration of a connector from a file, or from Connect's REST API where the address begins with http:
// http://HOST:8083/connectors/NAME. The login, if user is not empty, is sent to that address alone. Errors have no password
// and no value of a setting in them.
func Load(ctx context.Context, from, user, password string) (Properties, error) {
	var data []byte
	var err error
	if strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://") {
		data, err = fetch(ctx, from, user, password)
	} else {
		data, err = readFile(from)
	}
	if err != nil {
		return nil, err
	}
	p, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the connector, %s: %w", from, err)
	}
	return p, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the connector: %w; give a file, or the address of the connector in Connect's REST API", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err == nil && len(data) > maxBytes {
		err = fmt.Errorf("it has more than %d bytes", maxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("the configuration of the connector, %s: %w", name, err)
	}
	return data, nil
}

// fetch asks Connect for one connector.
func fetch(ctx context.Context, address, user, password string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of the connector is no URL") // err quotes it
	}
	if u.User != nil {
		return nil, fmt.Errorf("the address of the connector has a login in it, which other users of this machine may see; give it in %s and %s", UserEnv, PasswordEnv)
	}
	before, name, found := strings.Cut(strings.TrimRight(u.Path, "/"), "/connectors/")
	name = strings.TrimSuffix(name, "/config")
	if !found || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%s names no connector; it must end in /connectors/NAME", address)
	}
	u.Path, u.RawPath, u.RawQuery = before+"/connectors/"+name, "", ""
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask Connect: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	// A redirect is not followed: it would take the login along.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask Connect: %w; check that its REST API is served there", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, fmt.Errorf("the Connect at %s has no connector %s; %s lists them", u.Host, name, before+"/connectors")
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("the Connect at %s refuses the login (%s); give it in %s and %s", u.Host, resp.Status, UserEnv, PasswordEnv)
	default:
		return nil, fmt.Errorf("the Connect at %s answers %s", u.Host, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	if err == nil && len(data) > maxBytes {
		err = fmt.Errorf("its answer has more than %d bytes", maxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("ask Connect at %s: %w", u.Host, err)
	}
	return data, nil
}
