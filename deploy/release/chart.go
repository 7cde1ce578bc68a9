package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// chart writes the Helm chart with this version, and with the image of this version as its default. Helm packs it, which
// checks it as well, and writes the time of now into it; so it is packed once more.
func (p *packing) chart() error {
	folder := filepath.Join(p.work, "chart")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	cmd := exec.Command("go", "tool", "helm", "package", "../postrider", "--version", p.number(), "--app-version", p.number(), "--destination", folder)
	cmd.Dir = filepath.Join(p.source, "deploy", "helm", "check")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm package: %w\n%s", err, out)
	}
	name := "postrider-" + p.number() + ".tgz"
	packed, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return err
	}
	files, err := untar(packed)
	if err != nil {
		return err
	}
	if packed, err = tarOf(files, p.at); err != nil {
		return err
	}
	if packed, err = gzipped(packed); err != nil {
		return err
	}
	return p.write(name, packed)
}

// untar returns the files of a tar.gz, in their order: Helm reads Chart.yaml first.
func untar(packed []byte) (files []file, err error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files = append(files, file{header.Name, 0o644, content})
	}
}
