package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// image writes the image of every Linux binary as one archive of an OCI layout, without a running engine. It is what
// deploy/Dockerfile makes, but for the certificates: they are those of Mozilla's program at the version of go.sum, and not
// those of a distribution that is another one tomorrow.
func (p *packing) image(built []binary) error {
	certificates, err := p.layer(file{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()})
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range built {
		if b.os != "linux" {
			continue
		}
		content, err := os.ReadFile(b.path)
		if err != nil {
			return err
		}
		program, err := p.layer(file{"postrider", 0o755, content})
		if err != nil {
			return err
		}
		img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		if img, err = mutate.AppendLayers(img, certificates, program); err != nil {
			return err
		}
		config, err := img.ConfigFile()
		if err != nil {
			return err
		}
		config = config.DeepCopy()
		config.OS, config.Architecture = b.os, b.arch
		config.Created = v1.Time{Time: p.at}
		config.History = []v1.History{{Created: config.Created, CreatedBy: "certificate authorities"}, {Created: config.Created, CreatedBy: "postrider " + p.tag}}
		config.Config = v1.Config{
			User: "65532:65532", Env: []string{"PATH=/", "HTTP_ADDRESS=:8080"}, ExposedPorts: map[string]struct{}{"8080/tcp": {}},
			Entrypoint: []string{"/postrider"}, Cmd: []string{"serve"}, Labels: p.labels(),
		}
		if img, err = mutate.ConfigFile(img, config); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.os, Architecture: b.arch}}})
	}
	folder := filepath.Join(p.work, "image")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	// One entry that is an index itself: so tools find one image, of several platforms, by its name.
	name := map[string]string{"org.opencontainers.image.ref.name": p.number()}
	if err := path.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}
	files, err := filesIn(folder)
	if err != nil {
		return err
	}
	packed, err := tarOf(files, p.at)
	if err != nil {
		return err
	}
	return p.write(p.name("image.tar"), packed)
}

func (p *packing) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "postrider",
		"org.opencontainers.image.version":  p.number(),
		"org.opencontainers.image.created":  p.at.Format(time.RFC3339),
		"org.opencontainers.image.source":   "https://github.com/postrider/postrider",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

func (p *packing) layer(f file) (v1.Layer, error) {
	packed, err := tarOf([]file{f}, p.at)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// roots are the certificate authorities, as PEM.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
	}
	return out.Bytes()
}
