package packaging

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/logtest"
)

const releaseModule = "../../../deploy/release"

// releaseTool compiles the program that makes releases. Where its libraries cannot be had the test is noted as not tested.
func releaseTool(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", ".")
	cmd.Dir = releaseModule
	if out, err := cmd.CombinedOutput(); err != nil {
		logtest.NotTested(t, fmt.Sprintf("releases: the libraries of deploy/release cannot be fetched (%v); it needs a Go module proxy once\n%s", err, out))
	}
	tool := filepath.Join(t.TempDir(), "release")
	cmd = exec.CommandContext(ctx, "go", "build", "-o", tool, ".")
	cmd.Dir = releaseModule
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return tool
}

// TestReleaseTool runs the tests of the tool's own module.
func TestReleaseTool(t *testing.T) {
	t.Parallel()
	releaseTool(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", ".")
	cmd.Dir = releaseModule
	out, err := cmd.CombinedOutput()
	if n := strings.Count(string(out), "--- PASS: "); err != nil || n < 3 {
		t.Errorf("%d tests passed, %v\n%s", n, err, out)
	}
}

const (
	releaseTag  = "v0.1.0-test.1" // the changelog has it as v0.1.0, or as not released
	releaseTime = 1_769_850_000   // 2026-01-31T09:00:00Z
)

// compiled are a small program that stands in for Postrider, and the tools, as the tool packs them. `make release-check`
// packs the real one.
func compiled(t *testing.T) (binaries, tools string) {
	t.Helper()
	work := t.TempDir()
	source, program := filepath.Join(work, "main.go"), filepath.Join(work, "program")
	write(t, source, "package main\n\nfunc main() { println(\"the program\") }\n", 0o600)
	write(t, filepath.Join(work, "go.mod"), "module example.org/program\n\ngo 1.26\n", 0o600)
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	build.Dir, build.Env = work, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary := read(t, program)
	for _, to := range []string{"linux_amd64/postrider", "linux_arm64/postrider", "windows_amd64/postrider.exe"} {
		to = filepath.Join(work, "binaries", to)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, to, binary, 0o700)
	}
	tools = filepath.Join(work, "tools")
	if err := os.Mkdir(tools, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sbom", "manuals"} {
		if err := os.Symlink(buildtest.Program(t, "cmd/internal/"+name), filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(work, "binaries"), tools
}

// TestReleaseHasTheSameBytes: what a release is packed from decides all of its bytes, and neither the clock, the folders,
// the time zone nor the mask of the user who packs it.
func TestReleaseHasTheSameBytes(t *testing.T) {
	t.Parallel()
	helm(t)
	tool := releaseTool(t)
	binaries, tools := compiled(t)
	pack := func(mask, folder string, environment ...string) string {
		t.Helper()
		folder = filepath.Join(t.TempDir(), folder)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "umask "+mask+` && exec "$@"`, "sh", tool, "-source", root, "-out", folder, "-binaries", binaries, "-tools", tools,
			"-version", releaseTag, "-time", fmt.Sprint(releaseTime))
		cmd.Env = append(os.Environ(), environment...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return folder
	}
	first := pack("022", "first", "TZ=UTC")
	second := pack("077", "another/second", "TZ=Asia/Tokyo", "TMPDIR="+t.TempDir())
	names := releaseFiles(t, first)
	if other := releaseFiles(t, second); !slices.Equal(names, other) {
		t.Fatalf("one has %q, the other %q", names, other)
	}
	for _, name := range names {
		if read(t, filepath.Join(first, name)) != read(t, filepath.Join(second, name)) {
			t.Errorf("%s has other bytes the second time", name)
		}
	}
	want := []string{"NOTES.md", "SHA256SUMS", "postrider-0.1.0-test.1.tgz", "postrider-0.1.0~test.1-1.aarch64.rpm", "postrider-0.1.0~test.1-1.x86_64.rpm",
		"postrider_0.1.0-test.1_image.tar", "postrider_0.1.0-test.1_linux_amd64.cdx.json", "postrider_0.1.0-test.1_linux_amd64.tar.gz",
		"postrider_0.1.0-test.1_linux_arm64.cdx.json", "postrider_0.1.0-test.1_linux_arm64.tar.gz", "postrider_0.1.0-test.1_windows_amd64.cdx.json",
		"postrider_0.1.0-test.1_windows_amd64.zip", "postrider_0.1.0~test.1_amd64.deb", "postrider_0.1.0~test.1_arm64.deb"}
	if !slices.Equal(names, want) {
		t.Errorf("the files are %q, want %q", names, want)
	}
	t.Run("checksums", func(t *testing.T) { checkSums(t, first, names) })
	t.Run("archives", func(t *testing.T) { checkArchives(t, first) })
	t.Run("image", func(t *testing.T) { checkImage(t, filepath.Join(first, "postrider_0.1.0-test.1_image.tar")) })
	t.Run("chart", func(t *testing.T) { checkChart(t, filepath.Join(first, "postrider-0.1.0-test.1.tgz")) })
	t.Run("deb", func(t *testing.T) { checkDeb(t, filepath.Join(first, "postrider_0.1.0~test.1_"+runtime.GOARCH+".deb")) })
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	t.Run("rpm", func(t *testing.T) { checkRPM(t, filepath.Join(first, "postrider-0.1.0~test.1-1."+machine+".rpm")) })
}

func releaseFiles(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// SHA256SUMS names every other file with its sum.
func checkSums(t *testing.T, folder string, names []string) {
	var want strings.Builder
	for _, name := range names {
		if name != "SHA256SUMS" {
			fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256([]byte(read(t, filepath.Join(folder, name)))), name)
		}
	}
	if got := read(t, filepath.Join(folder, "SHA256SUMS")); got != want.String() {
		t.Errorf("%s\nwant %s", got, want.String())
	}
}

// checkArchives looks at what people unpack: the program that can be run, its licence, its manual and its completions.
func checkArchives(t *testing.T, folder string) {
	const inside = "postrider_0.1.0-test.1_linux_amd64/"
	unzipped, err := gzip.NewReader(strings.NewReader(read(t, filepath.Join(folder, "postrider_0.1.0-test.1_linux_amd64.tar.gz"))))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int64{}
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[h.Name] = h.Mode
		if !strings.HasPrefix(h.Name, inside) || h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != releaseTime {
			t.Errorf("%s of %d:%d at %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
	}
	for name, mode := range map[string]int64{"postrider": 0o755, "LICENSE": 0o644, "README.md": 0o644, "postrider.example.yaml": 0o644,
		"man/postrider-dlq-requeue.1": 0o644, "completions/postrider.bash": 0o644} {
		if modes[inside+name] != mode {
			t.Errorf("%s has the mode %o, want %o", name, modes[inside+name], mode)
		}
	}
	windows, err := zip.OpenReader(filepath.Join(folder, "postrider_0.1.0-test.1_windows_amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer windows.Close()
	if len(windows.File) == 0 || windows.File[0].Name != "postrider_0.1.0-test.1_windows_amd64/postrider.exe" {
		t.Errorf("the archive for Windows begins with %v", windows.File)
	}
	var bill struct {
		BomFormat  string
		Components []struct{ PURL string }
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(folder, "postrider_0.1.0-test.1_linux_arm64.cdx.json"))), &bill); err != nil || bill.BomFormat != "CycloneDX" || len(bill.Components) == 0 {
		t.Errorf("the bill of materials is %+v, %v", bill, err)
	}
}

// descriptor is how one part of an image names another.
type descriptor struct {
	Digest      string
	Size        int
	MediaType   string
	Platform    struct{ OS, Architecture string }
	Annotations map[string]string
}

// checkImage reads the archive as the image specification of the OCI says it, and compares what it holds with deploy/Dockerfile.
func checkImage(t *testing.T, archive string) {
	blobs := map[string][]byte{}
	for r := tar.NewReader(strings.NewReader(read(t, archive))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		blobs[h.Name] = content
	}
	parse := func(content []byte, into any) {
		t.Helper()
		if err := json.Unmarshal(content, into); err != nil {
			t.Fatalf("%v: %s", err, content)
		}
	}
	blob := func(d descriptor) []byte {
		t.Helper()
		content := blobs["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != strings.TrimPrefix(d.Digest, "sha256:") || len(content) != d.Size {
			t.Fatalf("%s has %d bytes and another digest", d.Digest, len(content))
		}
		return content
	}
	var version struct{ ImageLayoutVersion string }
	var outer, index struct{ Manifests []descriptor }
	parse(blobs["oci-layout"], &version)
	parse(blobs["index.json"], &outer)
	if version.ImageLayoutVersion != "1.0.0" || len(outer.Manifests) != 1 || outer.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "0.1.0-test.1" {
		t.Fatalf("the layout is %+v %+v", version, outer)
	}
	parse(blob(outer.Manifests[0]), &index)
	dockerfile := read(t, filepath.Join(root, "deploy", "Dockerfile"))
	_, dockerfile, _ = strings.Cut(dockerfile, "FROM scratch\n")
	var architectures []string
	for _, m := range index.Manifests {
		architectures = append(architectures, m.Platform.OS+"/"+m.Platform.Architecture)
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		parse(blob(m), &manifest)
		var config struct {
			Architecture, OS, Created string
			Config                    struct {
				User            string
				Env, Entrypoint []string
				Cmd             []string
				ExposedPorts    map[string]any
				Labels          map[string]string
			}
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		parse(blob(manifest.Config), &config)
		c := config.Config
		entrypoint, _ := json.Marshal(c.Entrypoint) // of strings
		cmd, _ := json.Marshal(c.Cmd)
		port := ""
		for p := range c.ExposedPorts {
			port = strings.TrimSuffix(p, "/tcp")
		}
		for _, line := range []string{"USER " + c.User, "ENTRYPOINT " + string(entrypoint), "CMD " + string(cmd), "EXPOSE " + port, "ENV " + c.Env[len(c.Env)-1]} {
			if !strings.Contains(dockerfile, line+"\n") {
				t.Errorf("the image has %s, and deploy/Dockerfile has not:\n%s", line, dockerfile)
			}
		}
		if config.OS != m.Platform.OS || config.Architecture != m.Platform.Architecture || config.Created != "2026-01-31T09:00:00Z" || c.Labels["org.opencontainers.image.version"] != "0.1.0-test.1" {
			t.Errorf("the configuration is %+v", config)
		}
		files := map[string]*tar.Header{}
		for i, layer := range manifest.Layers {
			unzipped, err := gzip.NewReader(bytes.NewReader(blob(layer)))
			if err != nil {
				t.Fatal(err)
			}
			whole, err := io.ReadAll(unzipped)
			if err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(whole); config.RootFS.DiffIDs[i] != "sha256:"+hex.EncodeToString(sum[:]) {
				t.Errorf("layer %d is not that of the configuration", i)
			}
			for r := tar.NewReader(bytes.NewReader(whole)); ; {
				h, err := r.Next()
				if err != nil {
					break
				}
				files[h.Name] = h
			}
		}
		if p := files["postrider"]; p == nil || p.Mode != 0o755 || files["etc/ssl/certs/ca-certificates.crt"] == nil || len(files) != 5 { // with three folders
			t.Errorf("the image holds %v", files)
		}
		if n := files["etc/ssl/certs/ca-certificates.crt"]; n != nil && n.Size < 100_000 {
			t.Errorf("the certificates are %d bytes", n.Size)
		}
	}
	if slices.Sort(architectures); !slices.Equal(architectures, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("the image is for %v", architectures)
	}
}

// checkChart has Helm read the packed chart: it is of this version, and so is the image that it runs.
func checkChart(t *testing.T, archive string) {
	out, err := exec.CommandContext(t.Context(), helm(t), "template", "r", archive, "--kube-version", "1.30.0", "--set", "config.kafka.brokers={kafka:9092}", "--set", "config.database.url=postgres://db/x").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "postrider:0.1.0-test.1") {
		t.Errorf("the chart does not run the image of its version:\n%s", out)
	}
	unzipped, err := gzip.NewReader(strings.NewReader(read(t, archive)))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(unzipped)
	var chart struct{ Version, AppVersion string }
	for {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "postrider/Chart.yaml" {
			break
		}
	}
	content, err := io.ReadAll(r)
	if err == nil {
		err = yaml.Unmarshal(content, &chart)
	}
	if err != nil || chart.Version != "0.1.0-test.1" {
		t.Errorf("%+v, %v", chart, err)
	}
}
