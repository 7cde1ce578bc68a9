package obs

import (
	"runtime"
	"runtime/debug"
)

// version is set when a release is linked: -ldflags "-X <this package>.version=v1.2.3".
var version string

// Build says what this binary was made from.
type Build struct {
	// Version is the release, or the module version, or "devel".
	Version string `json:"version"`
	// Revision is the commit, with "+dirty" where the tree had changes; empty when unknown.
	Revision string `json:"revision,omitempty"`
	// Go is the version of the compiler.
	Go string `json:"go"`
	// Platform is the operating system and the architecture.
	Platform string `json:"platform"`
}

// ReadBuild returns the known facts about this binary.
func ReadBuild() Build {
	b := Build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, known := debug.ReadBuildInfo()
	if !known {
		info = &debug.BuildInfo{}
	}
	if v := info.Main.Version; b.Version == "" && v != "" && v != "(devel)" {
		b.Version = v
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if b.Revision != "" {
		b.Revision += dirty
	}
	return b
}
