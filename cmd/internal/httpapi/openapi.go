package httpapi

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI is the description of the API, OpenAPI 3.1 in YAML.
func OpenAPI() []byte { return openAPI }

// serveOpenAPI answers /api/openapi.yaml, which needs no key: it says what anybody can read in the source.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	_, _ = w.Write(openAPI) // the client may be gone
}
