package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// manuals are the manual pages (man/) and the completions (completions/), as the commands say them.
func (p *packing) manuals() ([]file, error) {
	folder := filepath.Join(p.work, "manuals")
	if out, err := exec.Command(filepath.Join(p.tools, "manuals"), folder, p.tag, p.at.Format("2006-01-02")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("manual pages: %w: %s", err, out)
	}
	return filesIn(folder)
}

// archive writes a binary with its manual pages and completions: a zip for Windows, else a tar.gz. It unpacks into a folder
// of its own.
func (p *packing) archive(b binary) error {
	content, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	name := p.name(b.String())
	files := []file{{b.program(), 0o755, content}}
	for _, text := range []string{"LICENSE", "README.md", "CHANGELOG.md", "deploy/postrider.example.yaml"} {
		files = append(files, file{filepath.Base(text), 0o644, p.texts[text]})
	}
	for _, page := range p.pages {
		if b.os != "windows" || strings.HasSuffix(page.name, ".ps1") {
			files = append(files, page)
		}
	}
	for i := range files {
		files[i].name = name + "/" + files[i].name
	}
	if b.os == "windows" {
		zipped, err := p.zipOf(files)
		if err != nil {
			return err
		}
		return p.write(name+".zip", zipped)
	}
	packed, err := tarOf(files, p.at)
	if err != nil {
		return err
	}
	zipped, err := gzipped(packed)
	if err != nil {
		return err
	}
	return p.write(name+".tar.gz", zipped)
}

func (p *packing) zipOf(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: p.at}
		header.SetMode(os.FileMode(f.mode))
		to, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// bill writes what a binary was built from.
func (p *packing) bill(b binary) error {
	out, err := exec.Command(filepath.Join(p.tools, "sbom"), b.path).Output()
	if err != nil {
		return err
	}
	return p.write(p.name(b.String())+".cdx.json", out)
}
