package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// A binary's bill has each of its modules and the library of Go. The binary here is this test's.
func TestRun(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := run(binary, w); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Error("one binary has two bills")
	}
	var b bom
	dec := json.NewDecoder(&first)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.SpecVersion != "1.6" || b.Version != 1 || b.Metadata.Component.Type != "application" {
		t.Errorf("%+v", b)
	}
	if std := "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"); b.Components[0].PURL != std {
		t.Errorf("the library of Go is %s, want %s", b.Components[0].PURL, std)
	}
	info, _ := debug.ReadBuildInfo()
	if len(b.Components) != len(info.Deps)+1 {
		t.Errorf("%d components of %d modules", len(b.Components), len(info.Deps))
	}
}

func TestModules(t *testing.T) {
	t.Parallel()
	got := bill(&debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "github.com/postrider/postrider", Version: "v1.2.0"},
		Settings:  []debug.BuildSetting{{Key: "GOOS", Value: "linux"}},
		Deps: []*debug.Module{
			{Path: "github.com/Azure/thing", Version: "v2.0.0+incompatible", Sum: "h1:x="},
			{Path: "example.com/here", Version: "(devel)"},
			{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v1.1.0"}},
		},
	})
	var urls []string
	for _, c := range append([]component{got.Metadata.Component}, got.Components...) {
		if c.Ref != c.PURL || c.Name == "" {
			t.Errorf("%+v", c)
		}
		urls = append(urls, c.PURL)
	}
	want := "pkg:golang/github.com/postrider/postrider@v1.2.0 pkg:golang/std@1.26.8 " +
		"pkg:golang/github.com/azure/thing@v2.0.0%2Bincompatible pkg:golang/example.com/here pkg:golang/example.com/new@v1.1.0"
	if strings.Join(urls, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(urls, " "), want)
	}
	if p := got.Metadata.Component.Properties; len(p) != 1 || p[0] != (property{"go:build:GOOS", "linux"}) {
		t.Errorf("settings of the build: %v", p)
	}
	if p := got.Components[1].Properties; len(p) != 1 || p[0].Value != "h1:x=" {
		t.Errorf("checksum: %v", p)
	}
}

func TestNoBinary(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file + ".missing"} {
		var out bytes.Buffer
		if err := run(path, &out); err == nil || !strings.Contains(err.Error(), "a binary that Go built") || out.Len() > 0 {
			t.Errorf("%s: %v %s", path, err, out.String())
		}
	}
}
