package awskeys

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
)

// webIdentity changes the token of a service account for keys of a role: AssumeRoleWithWebIdentity of the API of AWS
// Security Token Service, 2011-06-15. The request needs no signature; the token is the proof.
func webIdentity(getenv func(string) string) (*Source, error) {
	role, file := getenv("AWS_ROLE_ARN"), getenv("AWS_WEB_IDENTITY_TOKEN_FILE")
	if role == "" {
		return nil, errors.New("the environment variable AWS_WEB_IDENTITY_TOKEN_FILE is set and AWS_ROLE_ARN is not; set both")
	}
	endpoint, err := stsEndpoint(getenv)
	if err != nil {
		return nil, err
	}
	session := getenv("AWS_ROLE_SESSION_NAME")
	if session == "" {
		session = "postrider"
	}
	token := func() (string, error) { return config.ReadSecretFile("AWS_WEB_IDENTITY_TOKEN_FILE", file) }
	client := newClient(func(r *http.Request) (*url.URL, error) {
		proxy, err := http.ProxyFromEnvironment(r)
		if err != nil { // which quotes it, with its password
			return nil, errors.New("the environment variable HTTPS_PROXY is not the URL of a proxy")
		}
		return proxy, nil
	})
	of := func(err error) error {
		return fmt.Errorf("keys of AWS for the role %s from %s: %w", role, endpoint.Host, err)
	}
	c := &cache{ask: func(ctx context.Context) (Keys, error) {
		proof, err := token()
		if err != nil {
			return Keys{}, err
		}
		form := url.Values{"Action": {"AssumeRoleWithWebIdentity"}, "Version": {"2011-06-15"},
			"RoleArn": {role}, "RoleSessionName": {session}, "WebIdentityToken": {proof}}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.String(), strings.NewReader(form.Encode()))
		if err != nil {
			return Keys{}, of(withoutURL(err))
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
		status, raw, err := ask(client, request)
		if err != nil {
			return Keys{}, of(err)
		}
		if status != http.StatusOK {
			return Keys{}, of(refusal(status, raw, proof))
		}
		k, err := assumed(raw)
		if err == nil {
			err = k.check(time.Now())
		}
		if err != nil {
			return Keys{}, of(err)
		}
		return k, nil
	}}
	return &Source{check: func() error { _, err := token(); return err }, keys: c.get}, nil
}

// regionName is what a region is called: it becomes a part of a host's name.
var regionName = regexp.MustCompile(`^[a-z]{2}(-[a-z0-9]+)+$`)

// stsEndpoint is that of the region; of China's it has another name. AWS_ENDPOINT_URL_STS replaces it, for private
// endpoints and for partitions that are not known here.
func stsEndpoint(getenv func(string) string) (*url.URL, error) {
	if text := getenv("AWS_ENDPOINT_URL_STS"); text != "" {
		u, err := url.Parse(text)
		if err != nil || u.User != nil || !mayBeAsked(u) {
			return nil, errors.New("the environment variable AWS_ENDPOINT_URL_STS must be a URL such as https://sts.eu-west-1.amazonaws.com, without a login")
		}
		return u, nil
	}
	region := Region(getenv)
	if !regionName.MatchString(region) {
		return nil, errors.New("the environment variable AWS_REGION must name the region, such as eu-west-1: AWS_WEB_IDENTITY_TOKEN_FILE is set, and that is where the token is changed for keys")
	}
	host := "sts." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		host += ".cn"
	}
	return &url.URL{Scheme: "https", Host: host, Path: "/"}, nil
}

// Region is what the environment says about it, or empty.
func Region(getenv func(string) string) string {
	if region := getenv("AWS_REGION"); region != "" {
		return region
	}
	return getenv("AWS_DEFAULT_REGION")
}

// assumed reads an AssumeRoleWithWebIdentityResponse.
func assumed(raw []byte) (Keys, error) {
	var answer struct {
		XMLName     xml.Name `xml:"AssumeRoleWithWebIdentityResponse"`
		Credentials struct {
			AccessKeyID     string `xml:"AccessKeyId"`
			SecretAccessKey string
			SessionToken    string
			Expiration      string
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if err := xml.Unmarshal(raw, &answer); err != nil {
		return Keys{}, errors.New("its answer is not the XML that was expected")
	}
	c := answer.Credentials
	ends, err := time.Parse(time.RFC3339, c.Expiration)
	if err != nil {
		return Keys{}, errors.New("its answer does not say when the keys end")
	}
	return Keys{AccessKeyID: c.AccessKeyID, SecretAccessKey: config.Secret(c.SecretAccessKey), SessionToken: config.Secret(c.SessionToken), Expires: ends}, nil
}

// refusal says what an ErrorResponse says, in so far as it is no secret.
func refusal(status int, raw []byte, proof string) error {
	var answer struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
	if err := xml.Unmarshal(raw, &answer); err != nil || answer.Code == "" {
		return fmt.Errorf("it answers %d %s", status, http.StatusText(status))
	}
	text := answer.Code + ": " + answer.Message
	if r := []rune(text); len(r) > 500 {
		text = string(r[:500]) + "…"
	}
	if strings.Contains(text, proof) {
		text = answer.Code
	}
	return fmt.Errorf("it answers %d %s; see that the role trusts this service account", status, strings.Join(strings.Fields(text), " "))
}
