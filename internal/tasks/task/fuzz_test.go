package task

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzParse reads any text. None makes it panic; a template that it takes encodes to the same again, in every
// environment; mistakes are told with their lines.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"templates/*.yaml", "testdata/mistakes/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no files %s, %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
			if tpl, err := Parse(file, data); err == nil {
				encoded, err := tpl.Encode()
				if err != nil {
					f.Fatal(err)
				}
				f.Add(encoded)
			}
		}
	}
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte(`{"a": "\ud800", "a": 1e-400}`))
	f.Add([]byte("\xef\xbb\xbfname: x\r\n\"\\u0000\": ? [a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tpl, err := Parse("f", data)
		if err != nil {
			var invalid *InvalidError
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
				t.Fatalf("the error is %v", err)
			}
			for _, p := range invalid.Problems {
				if p.Line < 1 || p.Text == "" {
					t.Fatalf("a problem without a place or a text: %+v", p)
				}
			}
			return
		}
		encoded, err := tpl.Encode()
		if err != nil || !json.Valid(encoded) {
			t.Fatalf("%+v encodes to %s, %v", tpl, encoded, err)
		}
		back, err := Parse("f", encoded)
		if err != nil || !reflect.DeepEqual(back, tpl) {
			t.Fatalf("%+v came back as %+v, %v", tpl, back, err)
		}
		for name := range tpl.Environments {
			if _, err := tpl.In(name); err != nil {
				t.Fatalf("in %s: %v", name, err)
			}
		}
		m, _ := tpl.Machine()
		if m.Kind(m.Initial()) != KindInitial {
			t.Fatalf("a machine without a beginning: %+v", m)
		}
		if _, cycles := order(tpl.Steps); len(cycles) > 0 {
			t.Fatalf("cycles %v", cycles)
		}
	})
}
