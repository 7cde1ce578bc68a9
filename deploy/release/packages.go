package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// The group of the process. The settings are root's, and readable by it; no other login reads them.
const group = "postrider"

// packaged writes the package of a format, deb or rpm. It brings the program, its manual, a unit of systemd and the folder of
// settings, and makes the user that the unit runs as. It starts nothing: the settings say nothing yet, and before an
// upgraded process starts the schema must be migrated.
func (p *packing) packaged(format string, b binary) error {
	contents, err := p.contents(format, b)
	if err != nil {
		return err
	}
	script := func(name string) string { return filepath.Join(p.source, "deploy", "release", "linux", name) }
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "postrider", Platform: "linux", Arch: b.arch, Version: p.tag, MTime: p.at, DisableGlobbing: true,
		Section: "database", Priority: "optional", Maintainer: "Postrider <https://github.com/postrider/postrider>", Vendor: "Postrider",
		Homepage: "https://github.com/postrider/postrider", License: "Apache-2.0",
		Description: "PostgreSQL outbox relay to Apache Kafka, with a desk for dead letters\n" +
			"Postrider carries events from a PostgreSQL outbox to Kafka: none lost,\nnone out of order, none silently stuck.",
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts:  nfpm.Scripts{PreInstall: script("before-install.sh"), PostInstall: script("after-install.sh"), PreRemove: script("before-remove.sh"), PostRemove: script("after-remove.sh")},
			RPM:      nfpm.RPM{BuildHost: "postrider", Group: "Applications/Databases", Summary: "PostgreSQL outbox relay to Apache Kafka, with a desk for dead letters"},
		},
	})
	if format == "deb" {
		info.Depends, info.Recommends = []string{"passwd"}, []string{"ca-certificates"}
	} else {
		info.Depends, info.Release = []string{"/usr/sbin/useradd"}, "1"
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(p.folder, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	err = packager.Package(info, out)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	return err
}

// contents are the files of a package.
func (p *packing) contents(format string, b binary) (all files.Contents, err error) {
	add := func(from, to string, mode os.FileMode) *files.Content {
		c := &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: p.at}}
		all = append(all, c)
		return c
	}
	here := filepath.Join(p.source, "deploy", "release", "linux")
	add(b.path, "/usr/bin/postrider", 0o755)
	add(filepath.Join(here, "postrider.service"), "/usr/lib/systemd/system/postrider.service", 0o644)
	settings := add("", "/etc/postrider", 0o750|os.ModeDir)
	settings.Type, settings.FileInfo.Group = files.TypeDir, group
	config := add(filepath.Join(here, "postrider.yaml"), "/etc/postrider/postrider.yaml", 0o640)
	config.Type, config.FileInfo.Group = files.TypeConfigNoReplace, group
	add(filepath.Join(here, "environment"), "/etc/postrider/environment", 0o600).Type = files.TypeConfigNoReplace // systemd reads it as root

	docs := "/usr/share/doc/postrider/"
	add(filepath.Join(p.source, "LICENSE"), docs+"copyright", 0o644)
	for _, name := range []string{"README.md", "CHANGELOG.md", "deploy/postrider.example.yaml"} {
		add(filepath.Join(p.source, name), docs+filepath.Base(name), 0o644)
	}
	zsh := map[string]string{"deb": "/usr/share/zsh/vendor-completions/", "rpm": "/usr/share/zsh/site-functions/"}[format]
	places := map[string]string{
		"completions/postrider.bash": "/usr/share/bash-completion/completions/postrider",
		"completions/_postrider":     zsh + "_postrider",
		"completions/postrider.fish": "/usr/share/fish/vendor_completions.d/postrider.fish",
	}
	for _, page := range p.pages {
		to, content := places[page.name], page.content
		if strings.HasPrefix(page.name, "man/") {
			to = "/usr/share/man/man1/" + filepath.Base(page.name) + ".gz"
			if content, err = gzipped(content); err != nil {
				return nil, err
			}
		}
		if to == "" {
			continue
		}
		from := filepath.Join(p.work, "pages", filepath.Base(to))
		if err := os.MkdirAll(filepath.Dir(from), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(from, content, 0o644); err != nil {
			return nil, err
		}
		add(from, to, 0o644)
	}
	return all, nil
}
