package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// platforms are what a release is for.
var platforms = []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// program is the name of the binary.
func (p platform) program() string {
	if p.os == "windows" {
		return "postrider.exe"
	}
	return "postrider"
}

// binary is Postrider for a platform.
type binary struct {
	platform
	path string
}

// compile makes the binary of each platform, binaries/GOOS_GOARCH/postrider, and the tools for this machine.
func (r *release) compile() error {
	for _, p := range platforms {
		fmt.Printf("release: compiling for %s\n", p)
		if err := r.build(p, "./cmd/postrider", filepath.Join(r.work, "binaries", p.String(), p.program())); err != nil {
			return err
		}
	}
	r.tools = filepath.Join(r.work, "tools")
	for _, tool := range []string{"sbom", "manuals"} {
		if err := r.build(platform{runtime.GOOS, runtime.GOARCH}, "./cmd/internal/"+tool, filepath.Join(r.tools, tool)); err != nil {
			return err
		}
	}
	return nil
}

// build compiles a package. The binary has the commit and nothing of this machine: neither its paths nor a C library, and
// no flag or level of instructions that its environment names.
func (r *release) build(p platform, pkg, to string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true",
		"-ldflags=-s -w -X github.com/postrider/postrider/cmd/internal/obs.version="+r.tag, "-o", to, pkg)
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly",
		"GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s for %s: %w\n%s", pkg, p, err, out)
	}
	return nil
}

// platformsIn are the binaries in a folder.
func platformsIn(folder string) (all []binary, err error) {
	for _, p := range platforms {
		path := filepath.Join(folder, p.String(), p.program())
		if _, err := os.Stat(path); err == nil {
			all = append(all, binary{p, path})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no binary: none of %v", folder, platforms)
	}
	return all, nil
}
