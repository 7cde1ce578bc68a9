package replay

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

func TestParseMatch(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"error":            "has no =",
		"":                 "has no =",
		"erorr=x":          `"erorr", which is not known; there are error, class, topic, group, key and header:NAME`,
		"=x":               "not known",
		"header:=x":        "names no header",
		"header=x":         "not known",
		"Error=x":          "not known",
		`key=a\`:           "ends in a backslash",
		"key=\xff":         "not UTF-8",
		"error!=*x*":       "",
		"header:a:b=x=y":   "",
		"key=":             "",
		"header:x!=":       "",
		"header:\x1b[2J=*": "",
	} {
		m, err := ParseMatch(in)
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
		if err == nil && m.String() != in {
			t.Errorf("%q became %q", in, m)
		}
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	l := dlq.Letter{OriginTopic: "orders", ConsumerGroup: "billing", Key: []byte("k\x00\xff"), ErrorClass: "record",
		ErrorCode: "TIMEOUT", ErrorMessage: "the call to 日本 took\n5 s"}
	r := dlq.Record{Headers: []message.Header{{Name: "tenant", Value: []byte("a")}, {Name: "tenant", Value: []byte("b")}, {Name: "null"}}}
	for in, want := range map[string]bool{
		"error=TIMEOUT":       true,
		"error=timeout":       false,
		"error=*took*s":       true,
		"error=*日? took*":     true,
		"error!=*took*":       false,
		"class=record":        true,
		"class=":              false,
		"topic=ord?rs":        true,
		"topic=orders.*":      false,
		"group!=billing":      false,
		"key=k*":              true,
		"key=k??":             true,
		"key=k?":              false,
		"header:tenant=a":     true,
		"header:tenant=b":     true,
		"header:tenant!=b":    false,
		"header:null=":        true,
		"header:gone=*":       false,
		"header:gone!=*":      true,
		`error=\TIMEOUT`:      true,
		`error=*call\*`:       false,
		"error=**T**I*M*E*T*": true,
	} {
		m, err := ParseMatch(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.fits(&r, &l); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}

// TestGlobProperty compares globs with regular expressions of the same meaning.
func TestGlobProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SampledFrom([]string{"a", "b", "é", "日", "*", "?", `\`, "\n", ".", "["})
		parts := rapid.SliceOfN(alphabet, 0, 12).Draw(t, "glob")
		var pattern, expression strings.Builder
		for _, p := range parts {
			switch p {
			case "*":
				expression.WriteString(".*")
			case "?":
				expression.WriteString(".")
			default:
				expression.WriteString(regexp.QuoteMeta(p))
				if p == `\` || rapid.Bool().Draw(t, "escaped") && len(p) == 1 {
					p = `\` + p
				}
			}
			pattern.WriteString(p)
		}
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "é", "日", "*", `\`, "\n", ".", "\xff", "\xe6"}), 0, 12).Draw(t, "text"), "")
		g, err := parseGlob(pattern.String())
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(`(?s)\A` + expression.String() + `\z`).MatchString(text)
		if got := g.MatchString(text); got != want {
			t.Fatalf("%q on %q: %v, the expression %q says %v", pattern.String(), text, got, expression.String(), want)
		}
	})
}

// TestConditionsProperty draws letters and conditions: all must hold, and a negated one is the opposite.
func TestConditionsProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"", "a", "ab", "b"})
		l := dlq.Letter{OriginTopic: word.Draw(t, "topic"), ConsumerGroup: word.Draw(t, "group"), Key: []byte(word.Draw(t, "key")),
			ErrorClass: word.Draw(t, "class"), ErrorCode: word.Draw(t, "code"), ErrorMessage: word.Draw(t, "message")}
		r := dlq.Record{}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, message.Header{Name: rapid.SampledFrom([]string{"h", "H", ""}).Draw(t, "name"), Value: []byte(word.Draw(t, "value"))})
		}
		o := Options{From: source}
		all := true
		for range rapid.IntRange(0, 4).Draw(t, "conditions") {
			name := rapid.SampledFrom([]string{"error", "class", "topic", "group", "key", "header:h"}).Draw(t, "about")
			prefix := word.Draw(t, "prefix") // the glob is a prefix and *
			values := map[string][]string{"error": {l.ErrorCode, l.ErrorMessage}, "class": {l.ErrorClass}, "topic": {l.OriginTopic},
				"group": {l.ConsumerGroup}, "key": {string(l.Key)}}[name]
			for _, h := range r.Headers {
				if name == "header:h" && h.Name == "h" {
					values = append(values, string(h.Value))
				}
			}
			holds := false
			for _, v := range values {
				holds = holds || strings.HasPrefix(v, prefix)
			}
			operator := "="
			if rapid.Bool().Draw(t, "not") {
				operator, holds = "!=", !holds
			}
			m, err := ParseMatch(name + operator + prefix + "*")
			if err != nil {
				t.Fatal(err)
			}
			if m.fits(&r, &l) != holds {
				t.Fatalf("%s: %v", m, !holds)
			}
			o.Match, all = append(o.Match, m), all && holds
		}
		fit := true
		for _, m := range o.Match {
			fit = fit && m.fits(&r, &l)
		}
		if fit != all {
			t.Fatalf("%v: %v", o.Match, fit)
		}
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("*a?b*", "xxaéb")
	f.Add(`\*\?`, "*?")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		g, err := parseGlob(pattern)
		if err != nil {
			return
		}
		g.MatchString(text)
		if literal, err := parseGlob(strings.NewReplacer(`*`, `\*`, `?`, `\?`, `\`, `\\`).Replace(text)); err == nil && !literal.MatchString(text) {
			t.Errorf("%q does not fit itself", text)
		}
	})
}
