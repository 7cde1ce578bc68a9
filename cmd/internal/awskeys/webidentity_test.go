package awskeys

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
)

// The answers are copied from the API reference of STS.
const (
	assumedRole = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>system:serviceaccount:events:postrider</SubjectFromWebIdentityToken>
    <Audience>sts.amazonaws.com</Audience>
    <AssumedRoleUser>
      <Arn>arn:aws:sts::123456789012:assumed-role/relay/postrider</Arn>
      <AssumedRoleId>AROACLKWSDQRAOEXAMPLE:postrider</AssumedRoleId>
    </AssumedRoleUser>
    <Credentials>
      <SessionToken>AQoDYXdzEE0a8ANXXXXXXXXNO1ewxE5TijQyp+IEXAMPLE==</SessionToken>
      <SecretAccessKey>wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY</SecretAccessKey>
      <Expiration>%s</Expiration>
      <AccessKeyId>ASgeIAIOSFODNN7EXAMPLE</AccessKeyId>
    </Credentials>
    <Provider>https://oidc.eks.eu-west-1.amazonaws.com/id/X</Provider>
  </AssumeRoleWithWebIdentityResult>
  <ResponseMetadata><RequestId>ad4156e9-bce1-11e2-82e6-6b6efEXAMPLE</RequestId></ResponseMetadata>
</AssumeRoleWithWebIdentityResponse>`
	refusedRole = `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error>
  <RequestId>ad4156e9-bce1-11e2-82e6-6b6efEXAMPLE</RequestId>
</ErrorResponse>`
)

// The token of the service account is changed for keys of the role, and read anew each time that is needed.
func TestWebIdentity(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	token := put(t, "first.sentinel")
	variables := map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/relay",
		"AWS_ENDPOINT_URL_STS": e.URL, "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/"}
	var form string
	answer := func(lives time.Duration) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.RawQuery != "" {
				http.Error(w, "sentinel", http.StatusBadRequest)
				return
			}
			form = r.PostForm.Encode()
			_, _ = fmt.Fprintf(w, assumedRole, time.Now().Add(lives).UTC().Format(time.RFC3339))
		}
	}
	const body = "Action=AssumeRoleWithWebIdentity&RoleArn=arn%%3Aaws%%3Aiam%%3A%%3A123456789012%%3Arole%%2Frelay&RoleSessionName=%s&Version=2011-06-15&WebIdentityToken=%s"
	s := find(t, variables)
	for _, proof := range []string{"first.sentinel", "second.sentinel"} {
		if err := os.WriteFile(token, []byte(proof), 0o600); err != nil {
			t.Fatal(err)
		}
		e.will(answer(20 * time.Second))
		k, err := s.Keys(t.Context())
		want(t, k, err, "ASgeIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY", "AQoDYXdzEE0a8ANXXXXXXXXNO1ewxE5TijQyp+IEXAMPLE==")
		if want := fmt.Sprintf(body, "postrider", proof); form != want {
			t.Errorf("STS was told\n%s, want\n%s", form, want)
		}
	}
	variables["AWS_ROLE_SESSION_NAME"] = "mine"
	if _, err := find(t, variables).Keys(t.Context()); err != nil || form != fmt.Sprintf(body, "mine", "second.sentinel") {
		t.Errorf("with a name: %v, %s", err, form)
	}
	for what, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		words  []string
	}{
		"not trusted": {says(http.StatusForbidden, fmt.Sprintf(refusedRole, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")),
			[]string{"answers 403 AccessDenied: Not authorized to perform", "trusts this service account"}},
		"the token comes back": {says(http.StatusBadRequest, fmt.Sprintf(refusedRole, "InvalidIdentityToken", "What is second.sentinel?")), []string{"answers 400 InvalidIdentityToken;"}},
		"long":                 {says(http.StatusBadRequest, fmt.Sprintf(refusedRole, "ExpiredTokenException", strings.Repeat("long ", 1000))), []string{"ExpiredTokenException: long long", "…"}},
		"no XML":               {says(http.StatusBadGateway, "sentinel"), []string{"answers 502 Bad Gateway"}},
		"another answer":       {says(http.StatusOK, "<Sentinel/>"), []string{"not the XML"}},
		"no keys":              {says(http.StatusOK, "<AssumeRoleWithWebIdentityResponse/>"), []string{"when the keys end"}},
	} {
		e.will(c.answer)
		_, err := find(t, variables).Keys(t.Context())
		wantError(t, what, err, append(c.words, "arn:aws:iam::123456789012:role/relay", strings.TrimPrefix(e.URL, "http://"))...)
	}
}

func TestWhereSTSIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		variables map[string]string
		want      string // the address, or a part of the error
	}{
		{map[string]string{"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}, "https://sts.eu-west-1.amazonaws.com/"},
		{map[string]string{"AWS_DEFAULT_REGION": "us-gov-west-1"}, "https://sts.us-gov-west-1.amazonaws.com/"},
		{map[string]string{"AWS_REGION": "cn-north-1"}, "https://sts.cn-north-1.amazonaws.com.cn/"},
		{map[string]string{"AWS_ENDPOINT_URL_STS": "https://vpce-1.sts.eu-west-1.vpce.amazonaws.com"}, "https://vpce-1.sts.eu-west-1.vpce.amazonaws.com"},
		{nil, "AWS_REGION must name the region"},
		{map[string]string{"AWS_REGION": "eu-west-1.evil.example/"}, "AWS_REGION must name the region"},
		{map[string]string{"AWS_ENDPOINT_URL_STS": "http://sts.example"}, "AWS_ENDPOINT_URL_STS must be a URL"},
		{map[string]string{"AWS_ENDPOINT_URL_STS": "https://me:sentinel@sts.example"}, "AWS_ENDPOINT_URL_STS must be a URL"},
	} {
		u, err := stsEndpoint(env(c.variables))
		if err != nil {
			wantError(t, fmt.Sprint(c.variables), err, c.want)
		} else if u.String() != c.want {
			t.Errorf("%v: %s, want %s", c.variables, u, c.want)
		}
	}
	_, err := Find(config.Kafka{}, env(map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "f", "AWS_REGION": "eu-west-1"}))
	wantError(t, "no role", err, "AWS_ROLE_ARN is not")
}
