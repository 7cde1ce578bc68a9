package task

import (
	"embed"
	"fmt"
	"path"
)

//go:embed templates/*.yaml
var shipped embed.FS

// exampleFile shows every key of a template, for people; it is not shipped as a template to work with.
const exampleFile = "templates/example.yaml"

// Shipped returns the templates that come with Postrider, in the order of their file names: batch_report,
// payment_processing, protocol, workflow.
func Shipped() ([]*Template, error) {
	entries, err := shipped.ReadDir("templates")
	if err != nil {
		return nil, fmt.Errorf("shipped templates: %w", err)
	}
	var all []*Template
	for _, e := range entries {
		name := path.Join("templates", e.Name())
		if name == exampleFile {
			continue
		}
		t, err := readShipped(name)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// Example returns the annotated example as it stands in its file: every key that a template may have.
func Example() ([]byte, error) { return shipped.ReadFile(exampleFile) }

func readShipped(name string) (*Template, error) {
	data, err := shipped.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("shipped templates: %w", err)
	}
	return Parse(name, data)
}
