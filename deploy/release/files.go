package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of an archive. Owner and group are root.
type file struct {
	name    string
	mode    int64
	content []byte
}

// tarOf is an archive of these files, in their order, with the folders above them. All have the same time.
func tarOf(files []file, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{".": true, "/": true}
	var folders func(path string) error
	folders = func(path string) error {
		if made[path] {
			return nil
		}
		made[path] = true
		if err := folders(filepath.Dir(path)); err != nil {
			return err
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755, ModTime: at})
	}
	for _, f := range files {
		if err := folders(filepath.Dir(f.name)); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// gzipped is a text as gzip writes it without a name or a time.
func gzipped(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// filesIn are the files below a folder, by their names.
func filesIn(folder string) (files []file, err error) {
	err = filepath.Walk(folder, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name := strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(folder)+"/")
		files = append(files, file{name, 0o644, content})
		return err
	})
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, err
}

// checksums writes the SHA-256 of each file of the release, as sha256sum -c reads it.
func (p *packing) checksums() error {
	files, err := os.ReadDir(p.folder)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, f := range files {
		sum := sha256.New()
		in, err := os.Open(filepath.Join(p.folder, f.Name()))
		if err != nil {
			return err
		}
		_, err = io.Copy(sum, in)
		if closeErr := in.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sum.Sum(nil), f.Name())
	}
	return p.write("SHA256SUMS", lines.Bytes())
}
