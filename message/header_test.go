package message

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		want []Header
	}{
		"nothing":                      {"", nil},
		"empty object":                 {" {} ", nil},
		"empty array":                  {"[]", nil},
		"object":                       {`{"a":"1","b":"2"}`, []Header{{"a", []byte("1")}, {"b", []byte("2")}}},
		"pairs keep order, repeat":     {`[["b","2"],["a","1"],["b","3"]]`, []Header{{"b", []byte("2")}, {"a", []byte("1")}, {"b", []byte("3")}}},
		"base64":                       {`{"a":{"base64":"AAH/"}}`, []Header{{"a", []byte{0, 1, 255}}}},
		"base64 wrapped by PostgreSQL": {`[["a",{"base64":"AAH/\nAAH/"}]]`, []Header{{"a", []byte{0, 1, 255, 0, 1, 255}}}},
		"null is not empty":            {`[["a",null],["b",""]]`, []Header{{"a", nil}, {"b", []byte{}}}},
		"hops":                         {`[["postrider-hops","0"],["postrider-hops","12"]]`, []Header{{"postrider-hops", []byte("0")}, {"postrider-hops", []byte("12")}}},
		"space in a name":              {`{" a b ":"1"}`, []Header{{" a b ", []byte("1")}}},
		"unicode name":                 {`{"grüße":"ß"}`, []Header{{"grüße", []byte("ß")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseHeaders([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if !sameHeaders(got, c.want) {
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestParseHeadersRefuses(t *testing.T) {
	t.Parallel()
	for in, mention := range map[string]string{
		`"a"`:                             "must be a JSON object or an array",
		`7`:                               "must be a JSON object or an array",
		`{"a":1}`:                         `header "a" must be a string`,
		`{"a":true}`:                      `header "a"`,
		`{"a":["b"]}`:                     `header "a"`,
		`{"a":{"base64":7}}`:              `header "a"`,
		`{"a":{"base64":"AA==","x":1}}`:   `header "a"`,
		`{"a":{}}`:                        `header "a"`,
		`{"a":{"base64":"@"}}`:            "not valid base64",
		`{"":"x"}`:                        "empty name",
		`[["","x"]]`:                      "empty name",
		`[1]`:                             "pairs",
		`[["a"]]`:                         "element 0 is not a pair",
		`[["a","b"],["a","b","c"]]`:       "element 1 is not a pair",
		`[[1,"b"]]`:                       "element 0 is not a pair",
		`[[null,"b"]]`:                    "element 0 is not a pair",
		`[["a",1]]`:                       `header "a"`,
		`{"a\r\nSet-Cookie: b":"c"}`:      `"a\r\nSet-Cookie: b": its name has a control character`,
		`[["a","1"],["\t","2"]]`:          `"\t": its name has a control character`,
		`{"a\u0000":"b"}`:                 "control character",
		`{"a\u001f":"b"}`:                 "control character",
		`{"a\u007f":"b"}`:                 "control character",
		`{"postrider-hops":"-5"}`:         `"-5", not a number from 0 up`,
		`{"postrider-hops":"+5"}`:         "not a number from 0 up",
		`{"postrider-hops":"1 "}`:         "not a number from 0 up",
		`{"postrider-hops":""}`:           "not a number from 0 up",
		`{"postrider-hops":null}`:         "not a number from 0 up",
		`{"postrider-hops":7}`:            `header "postrider-hops" must be a string`,
		`{"postrider-hops":"2147483648"}`: "not a number from 0 up",
		`{"a":"b"`:                        "not JSON",
		`{"a"`:                            "not JSON",
		`{"a":}`:                          "not JSON",
		`{`:                               "not JSON",
		`{"a":"b",`:                       "not JSON",
	} {
		_, err := ParseHeaders([]byte(in))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), mention) {
			t.Errorf("ParseHeaders(%s) = %v, want ErrInvalid mentioning %q", in, err, mention)
		}
	}
}

func TestHeadersSurviveMarshalling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hs := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Header {
			h := Header{Name: rapid.StringMatching(`[^\x00-\x1f\x7f]{1,20}`).Draw(t, "name")}
			if rapid.Bool().Draw(t, "has value") {
				h.Value = rapid.SliceOf(rapid.Byte()).Draw(t, "value")
			}
			return h
		})).Draw(t, "headers")
		got, err := ParseHeaders(MarshalHeaders(hs))
		if err != nil {
			t.Fatal(err)
		}
		if !sameHeaders(got, hs) {
			t.Fatalf("got %q, want %q", got, hs)
		}
	})
}

// TestReadableHeaders: a mistake in one header keeps the others.
func TestReadableHeaders(t *testing.T) {
	t.Parallel()
	want := []Header{{"a", []byte("1")}, {"b", nil}}
	for _, in := range []string{
		`{"a":"1","x\ny":"2","b":null}`, `[["a","1"],["\u007f","2"],["b",null]]`, `[["postrider-hops","-5"],["a","1"],["b",null]]`,
		`{"a":"1","b":null,"":"2"}`, `[["a","1"],["b",null],["c",7]]`,
	} {
		got, err := ReadableHeaders([]byte(in))
		if !errors.Is(err, ErrInvalid) || !sameHeaders(got, want) {
			t.Errorf("%s: %q, %v", in, got, err)
		}
	}
}

func FuzzParseHeaders(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":"b"}`, `[["a",null],["a",{"base64":"AA=="}]]`, `[[`, `{"a":{"base64"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		hs, err := ParseHeaders(raw)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("error does not wrap ErrInvalid: %v", err)
			}
			return
		}
		again, err := ParseHeaders(MarshalHeaders(hs))
		if err != nil || len(again) != len(hs) {
			t.Fatalf("parsed %q, marshalled it and got %q, %v", hs, again, err)
		}
	})
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"postrider-event-id": true, "Postrider-X": true, "POSTRIDER-": true,
		"postrider": false, "postriderx": false, "x-postrider-": false, "": false,
	} {
		if Reserved(name) != want {
			t.Errorf("Reserved(%q) = %v", name, !want)
		}
	}
}

func sameHeaders(a, b []Header) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || !bytes.Equal(a[i].Value, b[i].Value) || (a[i].Value == nil) != (b[i].Value == nil) {
			return false
		}
	}
	return true
}
