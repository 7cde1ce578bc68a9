// Command release makes what a version of Postrider is given out as, in one folder: binaries, packages, an image, the chart,
// bills of materials, and their checksums. The same commit and the same version of Go make the same bytes.
//
//	go run . -source ../.. -out ../../dist
//
// The version is the tag of the commit. With -binaries, -tools, -version and -time it packs what was compiled elsewhere.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	r := release{}
	flags.StringVar(&r.source, "source", "../..", "the folder of the repository")
	flags.StringVar(&r.out, "out", "", "the folder to make; one that is there is replaced")
	binaries := flags.String("binaries", "", "pack these binaries, GOOS_GOARCH/postrider, instead of compiling; needs -tools, -version and -time")
	tools := flags.String("tools", "", "with -binaries: the folder of the programs sbom and manuals")
	version := flags.String("version", "", "with -binaries: their version, such as v1.2.3")
	seconds := flags.Int64("time", 0, "with -binaries: the time of all files, in seconds since 1970")
	alone := flags.String("compile", "", "compile the binary of this platform, GOOS_GOARCH, to -out, and do nothing else")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.out == "" || flags.NArg() > 0 {
		return errors.New("say where to: -out FOLDER, and nothing else")
	}
	given := *binaries != ""
	if given != (*tools != "") || given != (*version != "") || given != (*seconds != 0) {
		return errors.New("-binaries, -tools, -version and -time are given together, or none of them")
	}
	for _, path := range []*string{&r.source, &r.out, binaries, tools} {
		if *path == "" {
			continue
		}
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp("", "postrider-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r.work = work
	if given {
		r.tag, r.at, r.tools = *version, time.Unix(*seconds, 0).UTC(), *tools
		return r.pack(*binaries)
	}
	if r.tag, r.at, err = tagged(r.source); err != nil {
		return err
	}
	for _, p := range platforms {
		if p.String() == *alone {
			return r.build(p, "./cmd/postrider", r.out)
		}
	}
	if *alone != "" {
		return fmt.Errorf("%q is none of the platforms %v", *alone, platforms)
	}
	if err := r.compile(); err != nil {
		return err
	}
	return r.pack(filepath.Join(work, "binaries"))
}

// release is a version that is being made.
type release struct {
	source string    // the repository
	out    string    // the folder to make
	work   string    // a folder for what is made on the way
	tools  string    // the folder of the programs sbom and manuals
	tag    string    // v1.2.3
	at     time.Time // of the commit, and of all files
}

// number is the version as packages, images and charts write it: 1.2.3.
func (r *release) number() string { return strings.TrimPrefix(r.tag, "v") }

// name is the name of a file of the release.
func (r *release) name(rest string) string { return "postrider_" + r.number() + "_" + rest }

// pack makes the folder. It takes the place of an earlier one when it is complete, and not before.
func (r *release) pack(binaries string) error {
	if !version.MatchString(r.tag) {
		return fmt.Errorf("%q is no version: write v1.2.3, or v1.2.3-rc.1", r.tag)
	}
	built, err := platformsIn(binaries)
	if err != nil {
		return err
	}
	folder := r.out + ".part"
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return err
	}
	p := packing{release: r, folder: folder}
	if err := p.all(built); err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.Rename(folder, r.out); err != nil {
		return err
	}
	fmt.Printf("release: %s is in %s\n", r.tag, r.out)
	return nil
}

// packing is a folder that is being filled.
type packing struct {
	*release
	folder string
	pages  []file // manual pages and completions
	texts  map[string][]byte
}

func (p *packing) all(built []binary) error {
	var err error
	if p.pages, err = p.manuals(); err != nil {
		return err
	}
	p.texts = map[string][]byte{}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "deploy/postrider.example.yaml"} {
		if p.texts[name], err = os.ReadFile(filepath.Join(p.source, name)); err != nil {
			return err
		}
	}
	for _, b := range built {
		if err := p.archive(b); err != nil {
			return fmt.Errorf("archive of %s: %w", b, err)
		}
		if err := p.bill(b); err != nil {
			return fmt.Errorf("bill of materials of %s: %w", b, err)
		}
		if b.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := p.packaged(format, b); err != nil {
				return fmt.Errorf("%s of %s: %w", format, b, err)
			}
		}
	}
	if err := p.image(built); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := p.chart(); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	notes, err := notes(p.texts["CHANGELOG.md"], p.tag)
	if err != nil {
		return err
	}
	if err := p.write("NOTES.md", notes); err != nil {
		return err
	}
	return p.checksums()
}

// write makes a file of the release.
func (p *packing) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(p.folder, name), content, 0o644)
}
