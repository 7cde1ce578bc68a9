package awskeys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
)

// ecsEndpoint is where ECS answers, to which the relative URI is added.
const ecsEndpoint = "http://169.254.170.2"

// maxAnswer is more than any answer with keys has, in bytes.
const maxAnswer = 1 << 20

// container asks the endpoint that ECS and EKS Pod Identity give a container.
func container(getenv func(string) string) (*Source, error) {
	variable, endpoint := "AWS_CONTAINER_CREDENTIALS_FULL_URI", getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if relative := getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); relative != "" {
		variable, endpoint = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", ecsEndpoint+"/"+strings.TrimPrefix(relative, "/")
	}
	at, err := url.Parse(endpoint)
	if err != nil || !mayBeAsked(at) { // the URI is a secret of its own on ECS: it is enough to get the keys
		return nil, fmt.Errorf("the environment variable %s must be a URL with https, or with http one of this machine, 169.254.170.2, 169.254.170.23 or [fd00:ec2::23]", variable)
	}
	// The token file is read if it is given; otherwise the token of the environment counts.
	authorization := func() (string, error) {
		if file := getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
			return config.ReadSecretFile("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file)
		}
		return getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN"), nil
	}
	client := newClient(nil) // without a proxy, which would see the token and the keys
	of := func(err error) error {
		return fmt.Errorf("keys of AWS from the endpoint of this container at %s (%s): %w", at.Host, variable, err)
	}
	c := &cache{ask: func(ctx context.Context) (Keys, error) {
		token, err := authorization()
		if err != nil {
			return Keys{}, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			return Keys{}, of(withoutURL(err))
		}
		request.Header.Set("Accept", "application/json")
		if token != "" {
			request.Header.Set("Authorization", token)
		}
		status, raw, err := ask(client, request)
		if err != nil {
			return Keys{}, of(err)
		}
		if status != http.StatusOK {
			return Keys{}, of(fmt.Errorf("it answers %d %s: see that the pod or task has a role", status, http.StatusText(status)))
		}
		_, k, err := decode(raw)
		if err == nil {
			err = k.check(time.Now())
		}
		if err != nil {
			return Keys{}, of(err)
		}
		return k, nil
	}}
	return &Source{
		check: func() error { _, err := authorization(); return err },
		keys:  c.get,
	}, nil
}

// mayBeAsked reports whether an endpoint may be told a token: no other host may read the request.
func mayBeAsked(u *url.URL) bool {
	if u.Scheme == "https" {
		return u.Hostname() != ""
	}
	if u.Scheme != "http" {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && (ip.IsLoopback() || ip == netip.AddrFrom4([4]byte{169, 254, 170, 2}) ||
		ip == netip.AddrFrom4([4]byte{169, 254, 170, 23}) || ip == netip.MustParseAddr("fd00:ec2::23"))
}

// newClient makes a client that follows no redirect and keeps no connection.
func newClient(proxy func(*http.Request) (*url.URL, error)) *http.Client {
	return &http.Client{
		Timeout:       askTimeout,
		Transport:     &http.Transport{Proxy: proxy, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask sends a request and reads the answer.
func ask(client *http.Client, request *http.Request) (status int, body []byte, err error) {
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, withoutURL(err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, withoutURL(err)
	case len(body) > maxAnswer:
		return 0, nil, fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	}
	return response.StatusCode, body, nil
}

// withoutURL takes the address out of an error, which callers say as far as it may be said.
func withoutURL(err error) error {
	if of, is := errors.AsType[*url.Error](err); is {
		return of.Err
	}
	return err
}
