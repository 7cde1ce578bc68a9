package awskeys

import (
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

	"go.uber.org/goleak"

	"github.com/postrider/postrider/cmd/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is an environment of these variables and no other.
func env(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func put(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func find(t *testing.T, variables map[string]string) *Source {
	t.Helper()
	s, err := Find(config.Kafka{}, env(variables))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s
}

// want compares keys by their content.
func want(t *testing.T, got Keys, err error, id, secret, token string) {
	t.Helper()
	if err != nil {
		t.Error(err)
	} else if got.AccessKeyID != id || got.SecretAccessKey.Reveal() != secret || got.SessionToken.Reveal() != token {
		t.Errorf("got %q %q %q, want %q %q %q", got.AccessKeyID, got.SecretAccessKey.Reveal(), got.SessionToken.Reveal(), id, secret, token)
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

func TestFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content, profile  string
		id, secret, token string
		wrong             []string
	}{
		"shared":                {content: "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = a+/b=\n", id: "AKIA1", secret: "a+/b="},
		"with token":            {content: "[default]\naws_access_key_id=ASIA1\naws_secret_access_key=s\naws_session_token=t==\n", id: "ASIA1", secret: "s", token: "t=="},
		"another profile":       {content: "[default]\naws_access_key_id=no\n[ msk ] ; ours\nregion=eu-west-1\nAWS_ACCESS_KEY_ID=AKIA2\naws_secret_access_key=s\n", profile: "msk", id: "AKIA2", secret: "s"},
		"of Windows":            {content: "\ufeff[default]\r\n# a comment\r\n; one more\r\n\r\naws_access_key_id = AKIA1\r\naws_secret_access_key = s\r\n", id: "AKIA1", secret: "s"},
		"a process":             {content: `{"Version":1,"AccessKeyId":"ASIA1","SecretAccessKey":"s","SessionToken":"t","Expiration":"2100-01-02T03:04:05Z"}`, id: "ASIA1", secret: "s", token: "t"},
		"an offset":             {content: ` {"AccessKeyId":"ASIA1","SecretAccessKey":"s","Expiration":"2100-01-02T03:04:05+00:00"}`, id: "ASIA1", secret: "s"},
		"empty":                 {wrong: []string{"no profile [default]"}},
		"no such profile":       {content: "[other]\naws_access_key_id=AKIA1\naws_secret_access_key=sentinel\n", profile: "msk", wrong: []string{"no profile [msk]", "AWS_PROFILE"}},
		"half":                  {content: "[default]\naws_secret_access_key=sentinel\n", wrong: []string{"they lack"}},
		"another way to them":   {content: "[default]\nrole_arn=arn:aws:iam::1:role/r\nsource_profile=sentinel\n", wrong: []string{"they lack"}},
		"no line":               {content: "[default]\nsentinel\n", wrong: []string{"line 2 is neither"}},
		"an open bracket":       {content: "[default\naws_secret_access_key=sentinel\n", wrong: []string{"line 1 begins with a bracket"}},
		"behind the bracket":    {content: "[default] sentinel\n", wrong: []string{"line 1 begins with a bracket"}},
		"a comment behind":      {content: "[default]\naws_access_key_id=AKIA1\naws_secret_access_key=sentinel # of me\n", wrong: []string{"blanks"}},
		"no JSON":               {content: `{"SecretAccessKey":"sentinel"`, wrong: []string{"not the JSON"}},
		"another type":          {content: `{"AccessKeyId":"A","SecretAccessKey":["sentinel"]}`, wrong: []string{"not the JSON"}},
		"another version":       {content: `{"Version":2,"AccessKeyId":"A","SecretAccessKey":"sentinel"}`, wrong: []string{"Version is 2"}},
		"no time":               {content: `{"Version":1,"AccessKeyId":"A","SecretAccessKey":"sentinel","Expiration":"soon"}`, wrong: []string{"Expiration"}},
		"ended":                 {content: `{"Version":1,"AccessKeyId":"A","SecretAccessKey":"sentinel","Expiration":"2026-01-02T03:04:05Z"}`, wrong: []string{"ended at 2026-01-02T03:04:05Z", "renewed"}},
		"an answer with no key": {content: `{"Version":1}`, wrong: []string{"they lack"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := put(t, c.content)
			s, err := Find(config.Kafka{SASLAWSCredentialsFile: path}, env(map[string]string{"AWS_PROFILE": c.profile, "AWS_ACCESS_KEY_ID": "no", "AWS_SECRET_ACCESS_KEY": "no"}))
			if err != nil {
				t.Fatal(err)
			}
			k, err := s.Keys(t.Context())
			if c.wrong == nil {
				want(t, k, err, c.id, c.secret, c.token)
				return
			}
			wantError(t, name, err, append(c.wrong, "kafka.sasl_aws_credentials_file", path)...)
			wantError(t, name, s.Check(), c.wrong...)
		})
	}
}

// Whatever a file contains, the error about it shows nothing of the content.
func FuzzFile(f *testing.F) {
	f.Add("[default]\naws_access_key_id=AKIA\naws_secret_access_key=s\n")
	f.Add("{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"s\",\"Expiration\":\"2100-01-02T03:04:05Z\"}")
	f.Fuzz(func(t *testing.T, text string) {
		const secret = "s3nt1nel-0f-a-s3cret"
		for _, content := range []string{text + secret, strings.ReplaceAll(text, "s", secret)} {
			k, err := parse([]byte(content), "default")
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", content, err)
			}
			if err == nil && strings.Contains(fmt.Sprintf("%v %+v %#v", k.SecretAccessKey, k.SecretAccessKey, k), secret) && !strings.Contains(k.AccessKeyID, secret) {
				t.Errorf("%q is printed", content)
			}
		}
	})
}

// endpoint answers with what it is told to, and counts.
type endpoint struct {
	*httptest.Server
	answer atomic.Pointer[func(http.ResponseWriter, *http.Request)]
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

func (e *endpoint) will(answer func(http.ResponseWriter, *http.Request)) { e.answer.Store(&answer) }

func says(status int, text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// The endpoint of a container is asked with its token, which is read anew, and its keys are kept while they live.
func TestContainer(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t)
	token := put(t, "first-sentinel\n")
	variables := map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": e.URL + "/v1/sentinel", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": token}
	s := find(t, variables)
	keys := func(n int, lives time.Duration) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			raw, err := os.ReadFile(token)
			if err != nil || r.URL.Path != "/v1/sentinel" || r.Header.Get("Authorization") != strings.TrimSpace(string(raw)) {
				http.Error(w, "sentinel", http.StatusForbidden)
				return
			}
			_, _ = fmt.Fprintf(w, `{"AccessKeyId":"ASIA%d","SecretAccessKey":"s","Token":"t","Expiration":%q}`, n, time.Now().Add(lives).UTC().Format(time.RFC3339))
		}
	}
	e.will(keys(1, time.Second*20)) // too little to be kept
	k, err := s.Keys(t.Context())
	want(t, k, err, "ASIA1", "s", "t")
	if err := os.WriteFile(token, []byte("second-sentinel"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.will(keys(2, time.Hour))
	for range 3 {
		k, err = s.Keys(t.Context())
		want(t, k, err, "ASIA2", "s", "t")
	}
	if n := e.asked.Load(); n != 2 {
		t.Errorf("it was asked %d times, want 2", n)
	}
	for what, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		words  []string
	}{
		"refused": {says(http.StatusForbidden, `{"message":"sentinel"}`), []string{"answers 403 Forbidden", "has a role"}},
		"no JSON": {says(http.StatusOK, "<sentinel>"), []string{"not the JSON"}},
		"no keys": {says(http.StatusOK, `{"AccessKeyId":"sentinel"}`), []string{"they lack"}},
		"ended":   {says(http.StatusOK, `{"AccessKeyId":"A","SecretAccessKey":"sentinel","Expiration":"2020-01-01T00:00:00Z"}`), []string{"they ended"}},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, []string{"answers 302 Found"}},
		"too large":  {says(http.StatusOK, strings.Repeat("sentinel", maxAnswer/8+1)), []string{"more than 1048576 bytes"}},
		"cut":        {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []string{"EOF"}},
		"no such at": {says(http.StatusNotFound, "sentinel"), []string{"answers 404 Not Found"}},
	} {
		e.will(c.answer)
		_, err := find(t, variables).Keys(t.Context())
		wantError(t, what, err, append(c.words, "endpoint of this container at "+strings.TrimPrefix(e.URL, "http://"), "AWS_CONTAINER_CREDENTIALS_FULL_URI")...)
	}
	// The keys that the source kept are there meanwhile; a new process has none.
	k, err = s.Keys(t.Context())
	want(t, k, err, "ASIA2", "s", "t")
	e.Close()
	_, err = find(t, variables).Keys(t.Context())
	wantError(t, "nobody there", err, "connection refused")
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	gone, err := Find(config.Kafka{}, env(variables))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, "no token", gone.Check(), "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: the file "+token)
	_, err = gone.Keys(t.Context())
	wantError(t, "no token", err, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: the file "+token)
}

// A token is sent only where no other host can read it.
func TestWhoMayBeAsked(t *testing.T) {
	t.Parallel()
	for uri, may := range map[string]bool{
		"http://169.254.170.23/v1/credentials": true, "http://[fd00:ec2::23]/v1/credentials": true, "http://169.254.170.2/v2/x": true,
		"http://127.0.0.1:1/": true, "http://[::1]:1/": true, "http://localhost/": true, "https://keys.example/": true,
		"http://keys.example/sentinel": false, "http://169.254.169.254/sentinel": false, "http://10.0.0.1/": false, "ftp://127.0.0.1/": false,
		"https:///sentinel": false, "sentinel": false, "http://127.0.0.1:sentinel/": false,
	} {
		_, err := Find(config.Kafka{}, env(map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": uri}))
		if may && err != nil {
			t.Errorf("%s: %v", uri, err)
		} else if !may {
			wantError(t, uri, err, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "https")
		}
	}
	if _, err := Find(config.Kafka{}, env(map[string]string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/x", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://keys.example/"})); err != nil {
		t.Errorf("the relative URI counts first: %v", err)
	}
}
