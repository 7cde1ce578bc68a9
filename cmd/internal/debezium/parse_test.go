package debezium

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	want := Properties{"name": "orders", "connector.class": Class, "database.password": "p=s:s#", "transforms": "outbox", "tasks.max": "1",
		"transforms.outbox.route.topic.replacement": "${routedByValue}"}
	for name, text := range map[string]string{
		"REST": `{"name":"orders","config":{"connector.class":"` + Class + `","database.password":"p=s:s#","transforms":"outbox","tasks.max":"1",
			"transforms.outbox.route.topic.replacement":"${routedByValue}"},"tasks":[{"connector":"orders","task":0}],"type":"source"}`,
		"config alone": "\ufeff\n" + `{"name":"orders","connector.class":"` + Class + `","database.password":"p=s:s#","transforms":"outbox","tasks.max":1,"transforms.outbox.route.topic.replacement":"${routedByValue}","x":null}`,
		"properties":   "# a comment\r\n!another\n\nname = orders\nconnector.class:" + Class + "\n  database.password=p=s:s\\u0023\ntransforms out\\\n   box\ntasks.max=1\ntransforms.outbox.route.topic.replacement=${routedByValue}",
	} {
		got, err := Parse([]byte(text))
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for text, says := range map[string]string{
		"":                                     "no settings",
		"{\n\"a\": \"sentinel\",\n}":           "line 3",
		`{"a": ["sentinel"]}`:                  "a is neither",
		`{"a": "b"} sentinel`:                  "behind",
		`["sentinel"`:                          "",
		"debezium.source.slot.name=sentinel":   "Debezium Server",
		`{"debezium.source.offset": "hidden"}`: "Debezium Server",
	} {
		got, err := Parse([]byte(text))
		if says == "" { // a name in properties
			if err != nil || len(got) != 1 {
				t.Errorf("%q: %v, %v", text, got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestLoad reads a file, and Connect's REST API with a login; no error has a password in it.
func TestLoad(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/connectors/moved":
			http.Redirect(w, r, "/open/connectors/orders", http.StatusFound)
		case r.URL.Path == "/open/connectors/orders":
			_, _ = w.Write([]byte(`{"name":"orders","config":{"connector.class":"x"}}`))
		case user != "me" || password != "sentinel":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.EscapedPath() == "/connectors/or%20ders":
			_, _ = w.Write([]byte(`{"name":"or ders","config":{"connector.class":"y"}}`))
		case r.URL.Path == "/connectors/large":
			_, _ = w.Write([]byte(`{"a":"` + strings.Repeat("x", maxBytes) + `"}`))
		case r.URL.Path == "/connectors/broken":
			w.WriteHeader(http.StatusConflict)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "orders.properties")
	if err := os.WriteFile(file, []byte("name=orders\nconnector.class=z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		file: "z", server.URL + "/open/connectors/orders": "x", server.URL + "/connectors/or%20ders/config": "y", server.URL + "/connectors/or%20ders/": "y",
	} {
		got, err := Load(t.Context(), from, "me", "sentinel")
		if err != nil || got["connector.class"] != want {
			t.Errorf("%s: %v, %v", from, got, err)
		}
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	for from, says := range map[string]string{
		file + "x":                          "or the address of the connector",
		server.URL + "/connectors/none":     "has no connector none",
		server.URL + "/connectors/large":    "more than",
		server.URL + "/connectors/moved":    "302",
		server.URL + "/connectors/broken":   "409",
		server.URL + "/connectors":          "must end in /connectors/NAME",
		server.URL:                          "must end in /connectors/NAME",
		"http://me:sentinel@x/connectors/a": "CONNECT_PASSWORD",
		"http://[sentinel/connectors/a":     "is no URL",
		closed.URL + "/connectors/a":        "ask Connect",
		filepath.Dir(file):                  "is a directory",
	} {
		if _, err := Load(t.Context(), from, "me", "sentinel"); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%s: %v", from, err)
		}
	}
	if _, err := Load(t.Context(), server.URL+"/connectors/x", "me", "wrong sentinel"); err == nil || !strings.Contains(err.Error(), "refuses the login") || strings.Contains(err.Error(), "sentinel") {
		t.Errorf("a wrong login: %v", err)
	}
}

func TestWithWorker(t *testing.T) {
	t.Parallel()
	worker := Properties{"key.converter": "K", "key.converter.schemas.enable": "false", "value.converter": "V", "value.converter.schemas.enable": "false", "bootstrap.servers": "b"}
	got := Properties{"value.converter": "own"}.WithWorker(worker)
	if want := (Properties{"value.converter": "own", "key.converter": "K", "key.converter.schemas.enable": "false"}); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
