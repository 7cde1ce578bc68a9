package kafkaauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
)

// onlyEnv sets these variables, and takes away what AWS's programs may find besides them on the machine of a test.
func onlyEnv(t *testing.T, environ map[string]string) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	for name, value := range map[string]string{"AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
		"AWS_SESSION_TOKEN": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_ROLE_ARN": "", "AWS_ROLE_SESSION_NAME": "", "AWS_ENDPOINT_URL_STS": "",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "",
		"AWS_CONFIG_FILE": none, "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_EC2_METADATA_DISABLED": "true", "AWS_EC2_METADATA_SERVICE_ENDPOINT": ""} {
		if given, is := environ[name]; is {
			value = given
		}
		t.Setenv(name, value)
	}
}

// find returns the source of the keys, which must be there.
func find(t *testing.T, c config.Kafka) keySource {
	t.Helper()
	source, err := findKeys(c)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// wantKeys compares keys by their content.
func wantKeys(t *testing.T, source keySource, id, secret, token string) {
	t.Helper()
	k, err := source(t.Context())
	if err != nil {
		t.Error(err)
	} else if k.AccessKeyID != id || k.SecretAccessKey != secret || k.SessionToken != token {
		t.Errorf("got %q %q %q, want %q %q %q", k.AccessKeyID, k.SecretAccessKey, k.SessionToken, id, secret, token)
	}
}

// wantError looks for words in an error, and for the sentinel, which is a secret.
func wantError(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q is not in %v", what, w, err)
		}
	}
	if strings.Contains(err.Error(), "sentinel") {
		t.Errorf("%s: a secret is in %v", what, err)
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	return put(t, filepath.Join(t.TempDir(), "file"), []byte(content))
}

func TestAWSFiles(t *testing.T) {
	for name, c := range map[string]struct {
		content, profile  string
		id, secret, token string
		wrong             []string
	}{
		"shared":                {content: "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = a+/b=\n", id: "AKIA1", secret: "a+/b="},
		"with token":            {content: "[default]\naws_access_key_id=ASIA1\naws_secret_access_key=s\naws_session_token=t==\n", id: "ASIA1", secret: "s", token: "t=="},
		"another profile":       {content: "[default]\naws_access_key_id=no\n[msk]\nregion=eu-west-1\nAWS_ACCESS_KEY_ID=AKIA2\naws_secret_access_key=s\n", profile: "msk", id: "AKIA2", secret: "s"},
		"of Windows":            {content: "[default]\r\n# a comment\r\n; one more\r\n\r\naws_access_key_id = AKIA1\r\naws_secret_access_key = s\r\n", id: "AKIA1", secret: "s"},
		"a comment behind":      {content: "[default]\naws_access_key_id=AKIA1\naws_secret_access_key=s # of me\n", id: "AKIA1", secret: "s"},
		"exported":              {content: `{"Version":1,"AccessKeyId":"ASIA1","SecretAccessKey":"s","SessionToken":"t","Expiration":"2100-01-02T03:04:05Z"}`, id: "ASIA1", secret: "s", token: "t"},
		"an offset":             {content: ` {"AccessKeyId":"ASIA1","SecretAccessKey":"s","Expiration":"2100-01-02T03:04:05+00:00"}`, id: "ASIA1", secret: "s"},
		"empty":                 {wrong: []string{"no profile [default]"}},
		"no such profile":       {content: "[other]\naws_access_key_id=AKIA1\naws_secret_access_key=sentinel\n", profile: "msk", wrong: []string{"no profile [msk]", "AWS_PROFILE"}},
		"half":                  {content: "[default]\naws_secret_access_key=sentinel\n", wrong: []string{"profile [default] needs aws_access_key_id and"}},
		"no line":               {content: "[default]\nsentinel\n", wrong: []string{"they lack"}},
		"two words":             {content: "[default]\naws_access_key_id=AKIA1\naws_secret_access_key=sentinel of me\n", wrong: []string{"blanks"}},
		"no JSON":               {content: `{"SecretAccessKey":"sentinel"`, wrong: []string{"not the JSON"}},
		"another type":          {content: `{"AccessKeyId":"A","SecretAccessKey":["sentinel"]}`, wrong: []string{"not the JSON"}},
		"another version":       {content: `{"Version":2,"AccessKeyId":"A","SecretAccessKey":"sentinel"}`, wrong: []string{"Version is 2"}},
		"no time":               {content: `{"Version":1,"AccessKeyId":"A","SecretAccessKey":"sentinel","Expiration":"sentinel"}`, wrong: []string{"not the JSON"}},
		"ended":                 {content: `{"Version":1,"AccessKeyId":"A","SecretAccessKey":"sentinel","Expiration":"2026-01-02T03:04:05Z"}`, wrong: []string{"ended at 2026-01-02T03:04:05Z", "renewed"}},
		"an answer with no key": {content: `{"Version":1}`, wrong: []string{"they lack"}},
	} {
		t.Run(name, func(t *testing.T) {
			onlyEnv(t, map[string]string{"AWS_PROFILE": c.profile, "AWS_ACCESS_KEY_ID": "no", "AWS_SECRET_ACCESS_KEY": "no"})
			path := file(t, c.content)
			source, err := findKeys(config.Kafka{SASLAWSCredentialsFile: path})
			if c.wrong == nil {
				if err != nil {
					t.Fatal(err)
				}
				wantKeys(t, source, c.id, c.secret, c.token)
				return
			}
			wantError(t, name, err, append(c.wrong, "kafka.sasl_aws_credentials_file", path)...)
		})
	}
}

// Whatever a file contains, the error about it shows nothing of the content.
func FuzzAWSFile(f *testing.F) {
	f.Add("[default]\naws_access_key_id=AKIA\naws_secret_access_key=s\n")
	f.Add("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"s\",\"Expiration\":\"2100-01-02T03:04:05Z\"}")
	f.Fuzz(func(t *testing.T, text string) {
		const secret = "s3nt1nel-0f-a-s3cret"
		for _, content := range []string{text + secret, strings.ReplaceAll(text, "s", secret)} {
			if _, err := fileKeys(t.Context(), file(t, content)); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", content, err)
			}
		}
	})
}

// endpoint answers with what it is told to, and counts.
type endpoint struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	asked  atomic.Int32
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.asked.Add(1)
		(*e.answer.Load())(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) will(answer http.HandlerFunc) { e.answer.Store(&answer) }

func says(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// until is a time for an answer, as AWS writes it.
func until(lives time.Duration) string { return time.Now().Add(lives).UTC().Format(time.RFC3339) }

// The endpoint of a container is asked with its token, which is read anew, and its keys are kept while they live.
func TestContainer(t *testing.T) {
	e := newEndpoint(t)
	token := file(t, "first-sentinel")
	onlyEnv(t, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": e.URL + "/v1/sentinel", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token})
	source := find(t, config.Kafka{})
	keys := func(n int, lives time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			raw, err := os.ReadFile(token)
			if err != nil || r.URL.Path != "/v1/sentinel" || r.Header.Get("Authorization") != string(raw) {
				http.Error(w, `{"code":"Denied","message":"no"}`, http.StatusForbidden)
				return
			}
			_, _ = fmt.Fprintf(w, `{"AccessKeyId":"ASIA%d","SecretAccessKey":"s","Token":"t","Expiration":%q}`, n, until(lives))
		}
	}
	e.will(keys(1, time.Second*20)) // too little to be kept
	wantKeys(t, source, "ASIA1", "s", "t")
	put(t, token, []byte("second-sentinel"))
	e.will(keys(2, time.Hour))
	for range 3 {
		wantKeys(t, source, "ASIA2", "s", "t")
	}
	if n := e.asked.Load(); n != 2 {
		t.Errorf("it was asked %d times, want 2", n)
	}
	for what, c := range map[string]struct {
		answer http.HandlerFunc
		words  []string
	}{
		"refused": {says(http.StatusForbidden, `{"code":"AccessDenied","message":"no role"}`), []string{"AccessDenied", "no role", "has a role"}},
		"no JSON": {says(http.StatusOK, "<sentinel>"), []string{"json"}},
		"no keys": {says(http.StatusOK, `{"AccessKeyId":"sentinel"}`), []string{"they lack"}},
		"ended":   {says(http.StatusOK, `{"AccessKeyId":"A","SecretAccessKey":"sentinel","Expiration":"2020-01-01T00:00:00Z"}`), []string{"they ended"}},
		"cut":     {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []string{"EOF", "(AWS_CONTAINER_CREDENTIALS_FULL_URI)"}},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, nil},
	} {
		e.will(c.answer)
		_, err := find(t, config.Kafka{})(t.Context())
		wantError(t, what, err, append(c.words, "there are no keys of AWS: ", "kafka.sasl_aws_credentials_file")...)
	}
	wantKeys(t, source, "ASIA2", "s", "t") // the keys that were kept
	e.Close()
	_, err := find(t, config.Kafka{})(t.Context())
	wantError(t, "not there", err, "connection refused", "(AWS_CONTAINER_CREDENTIALS_FULL_URI)")
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	_, err = findKeys(config.Kafka{})
	wantError(t, "no token", err, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: the file "+token)
}

// A caller that goes away gets its own error, and the others still get their keys.
func TestCallersThatGoAway(t *testing.T) {
	e := newEndpoint(t)
	onlyEnv(t, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": e.URL})
	arrived, answer := make(chan struct{}), make(chan struct{})
	e.will(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-answer
		_, _ = fmt.Fprintf(w, `{"AccessKeyId":"ASIA1","SecretAccessKey":"s","Token":"t","Expiration":%q}`, until(time.Hour))
	})
	source := find(t, config.Kafka{})
	first, leave := context.WithCancelCause(t.Context())
	left := make(chan error)
	go func() { _, err := source(first); left <- err }()
	<-arrived
	gone := errors.New("gone")
	leave(gone)
	if err := <-left; !errors.Is(err, gone) {
		t.Errorf("a caller that goes away gets %v", err)
	}
	close(answer)
}

// A token is sent only where no other host can read it.
func TestEndpointsThatMayBeAsked(t *testing.T) {
	for uri, may := range map[string]bool{
		"http://169.254.170.23/v1/credentials": true, "http://[fd00:ec2::23]/v1/credentials": true, "http://169.254.170.2/v2/x": true,
		"http://127.0.0.1:1/": true, "http://[::1]:1/": true, "https://keys.example/": true,
		"http://10.0.0.1/sentinel": false, "http://169.254.169.254/sentinel": false, "https:///sentinel": false, "sentinel": false,
	} {
		onlyEnv(t, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": uri})
		if _, err := findKeys(config.Kafka{}); may && err != nil {
			t.Errorf("%s: %v", uri, err)
		} else if !may {
			wantError(t, uri, err, "there are no keys of AWS: ")
		}
	}
}

// The answers of STS, by the name of their action.
const (
	assumedRole = `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials>
  <AccessKeyId>%[2]s</AccessKeyId><SecretAccessKey>wJalrXUtnFEMI/K7</SecretAccessKey><SessionToken>AQoDYXdzEE0a8AN==</SessionToken>
  <Expiration>%[3]s</Expiration></Credentials></%[1]sResult><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></%[1]sResponse>`
	refusedRole = `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>1</RequestId></ErrorResponse>`
)

// sts answers as AWS Security Token Service does; forms gets what it was told.
func sts(forms *[]map[string]string, lives time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, "sentinel", http.StatusBadRequest)
			return
		}
		form := map[string]string{}
		for name := range r.PostForm {
			form[name] = r.PostForm.Get(name)
		}
		*forms = append(*forms, form)
		_, _ = fmt.Fprintf(w, assumedRole, form["Action"], fmt.Sprintf("ASIA%d", len(*forms)), until(lives))
	}
}

// The token of the service account is changed for keys of the role, and read anew each time that is needed.
func TestWebIdentity(t *testing.T) {
	e := newEndpoint(t)
	token := file(t, "first.sentinel")
	const role = "arn:aws:iam::123456789012:role/relay"
	environ := map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": role, "AWS_REGION": "eu-west-1",
		"AWS_ENDPOINT_URL_STS": e.URL, "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/"}
	onlyEnv(t, environ)
	var forms []map[string]string
	e.will(sts(&forms, 20*time.Second))
	source := find(t, config.Kafka{})
	for i, proof := range []string{"first.sentinel", "second.sentinel"} {
		put(t, token, []byte(proof))
		wantKeys(t, source, fmt.Sprintf("ASIA%d", i+1), "wJalrXUtnFEMI/K7", "AQoDYXdzEE0a8AN==")
		want := map[string]string{"Action": "AssumeRoleWithWebIdentity", "RoleArn": role, "RoleSessionName": "postrider", "Version": "2011-06-15", "WebIdentityToken": proof}
		if got := forms[len(forms)-1]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("STS was told %v, want %v", got, want)
		}
	}
	for what, c := range map[string]struct {
		answer http.HandlerFunc
		words  []string
	}{
		"not trusted": {says(http.StatusForbidden, fmt.Sprintf(refusedRole, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")),
			[]string{"403", "AccessDenied: Not authorized to perform", "has a role"}},
		"no XML": {says(http.StatusBadGateway, "sentinel"), []string{"502"}},
	} {
		e.will(c.answer)
		_, err := find(t, config.Kafka{})(t.Context())
		wantError(t, what, err, c.words...)
	}
	for missing, word := range map[string]string{"AWS_ROLE_ARN": "AWS_ROLE_ARN is not; set both", "AWS_REGION": "AWS_REGION must name the region"} {
		t.Setenv(missing, "")
		_, err := findKeys(config.Kafka{})
		wantError(t, missing, err, word)
		t.Setenv(missing, environ[missing])
	}
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token+".none")
	_, err := findKeys(config.Kafka{})
	wantError(t, "no token", err, "AWS_WEB_IDENTITY_TOKEN_FILE: the file "+token+".none cannot be read")
}

// The files of profiles are read again for each connection. A profile may lead to a role, also in another account.
func TestProfiles(t *testing.T) {
	e := newEndpoint(t)
	var forms []map[string]string
	e.will(sts(&forms, time.Hour))
	path := file(t, "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = s\n")
	onlyEnv(t, map[string]string{"AWS_SHARED_CREDENTIALS_FILE": path, "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL_STS": e.URL})
	source := find(t, config.Kafka{})
	wantKeys(t, source, "AKIA1", "s", "")
	put(t, path, []byte("[default]\naws_access_key_id = AKIA2\naws_secret_access_key = s\n"))
	wantKeys(t, source, "AKIA2", "s", "")
	put(t, path, []byte("[base]\naws_access_key_id = AKIA3\naws_secret_access_key = sentinel\n\n"+
		"[default]\nrole_arn = arn:aws:iam::210987654321:role/relay\nsource_profile = base\nexternal_id = ticket-7\n"))
	for range 3 {
		wantKeys(t, source, "ASIA1", "wJalrXUtnFEMI/K7", "AQoDYXdzEE0a8AN==")
	}
	if len(forms) != 1 || forms[0]["Action"] != "AssumeRole" || forms[0]["ExternalId"] != "ticket-7" || forms[0]["RoleArn"] != "arn:aws:iam::210987654321:role/relay" {
		t.Errorf("STS was told %v", forms)
	}
	t.Setenv("AWS_PROFILE", "absent")
	_, err := findKeys(config.Kafka{})
	wantError(t, "no such profile", err, "there are no keys of AWS: ", "absent")
}

// The metadata of an EC2 instance are the last source.
func TestInstance(t *testing.T) {
	e := newEndpoint(t)
	e.will(func(w http.ResponseWriter, r *http.Request) {
		const roles = "/latest/meta-data/iam/security-credentials/"
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "300")
			_, _ = io.WriteString(w, "session")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == roles:
			_, _ = io.WriteString(w, "relay")
		case r.URL.Path == roles+"relay":
			_, _ = fmt.Fprintf(w, `{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"ASIA1","SecretAccessKey":"s","Token":"t","LastUpdated":%q,"Expiration":%q}`, until(0), until(time.Hour))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	onlyEnv(t, map[string]string{"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": e.URL})
	wantKeys(t, find(t, config.Kafka{}), "ASIA1", "s", "t")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	_, err := find(t, config.Kafka{})(t.Context())
	wantError(t, "no source at all", err, "there are no keys of AWS: ", "kafka.sasl_aws_credentials_file", "AWS_ACCESS_KEY_ID", "has a role")
}
