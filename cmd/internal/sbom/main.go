// Command sbom prints what a Go binary was built from, in CycloneDX 1.6 (JSON): the modules, and the standard library,
// that the Go linker wrote into it. The same binary has the same output. It cannot know licences.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY >FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// run writes the bill of the binary at this path.
func run(path string, w io.Writer) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w; give it a binary that Go built", err)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(bill(info))
}

type bom struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

// component is a module. Its reference is its package URL, pkg:golang/PATH@VERSION, by which scanners know it.
type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func bill(info *debug.BuildInfo) bom {
	b := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata:   metadata{module("application", &info.Main)},
		Components: []component{module("library", &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})}}
	for _, setting := range info.Settings {
		b.Metadata.Component.Properties = append(b.Metadata.Component.Properties, property{"go:build:" + setting.Key, setting.Value})
	}
	for _, m := range info.Deps {
		b.Components = append(b.Components, module("library", m))
	}
	return b
}

func module(kind string, m *debug.Module) component {
	if m.Replace != nil { // the binary holds the replacement
		m = m.Replace
	}
	purl := "pkg:golang/" + strings.ToLower(m.Path) // so the definition of the type golang has it
	if m.Version != "" && m.Version != "(devel)" {
		purl += "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	}
	c := component{Type: kind, Ref: purl, Name: m.Path, Version: m.Version, PURL: purl}
	if m.Sum != "" {
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}
