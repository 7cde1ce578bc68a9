package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/postrider/postrider/cmd/internal/api"
)

//go:embed templates
var templateFiles embed.FS

// renderer has the templates: frame.html and parts.html belong to all, every other file is a page.
type renderer struct{ pages map[string]*template.Template }

func newRenderer() (*renderer, error) {
	funcs := template.FuncMap{
		"count": count, "time": timeTag, "exact": exactTag, "clip": clip, "line": oneLine, "short": short, "otherSource": api.OtherSource, "shortLine": shortLine, "names": func(all []string) string { return strings.Join(all, ", ") }, "withWhole": withWhole, "sentence": sentence,
		"spark": spark, "bar": bar, "bytes": bytesText, "text": text, "state": groupWords, "status": statusWords, "partition": partitionWords, "lower": strings.ToLower,
		"dict": dict, "why": whySkipped, "times": timesInWords, "item": itemWords, "withOperation": withOperation, "way": wayName, "deed": deed, "yes": func(b *bool) bool { return b != nil && *b },
	}
	common, err := template.New("").Funcs(funcs).ParseFS(templateFiles, "templates/frame.html", "templates/parts.html")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		return nil, err
	}
	r := &renderer{pages: map[string]*template.Template{}}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "frame" || name == "parts" {
			continue
		}
		page, err := common.Clone()
		if err != nil {
			return nil, err
		}
		if r.pages[name], err = page.ParseFS(templateFiles, file); err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
	}
	return r, nil
}

// usualPage is how many bytes most pages have at most.
const usualPage = 64 << 10

// render makes a whole page. Text from outside in it cannot change how it is read; see harmless.
func (r *renderer) render(name string, f *frame) ([]byte, error) {
	var page bytes.Buffer
	page.Grow(usualPage)
	whole := "frame"
	if f.Person == nil {
		whole = "door"
	}
	if err := r.pages[name].ExecuteTemplate(&page, whole, f); err != nil {
		return nil, fmt.Errorf("page %s: %w", name, err)
	}
	return harmless(page.Bytes()), nil
}

// write sends a page, or says that it could not be made.
func (c *Console) write(w http.ResponseWriter, r *http.Request, status int, name string, f *frame) {
	page, err := c.pages.render(name, f)
	if err != nil {
		c.log.Error("a page could not be made", "page", name, "path", r.URL.Path, "request_id", w.Header().Get("X-Request-Id"), "err", err)
		http.Error(w, "This page could not be made. It is our mistake; nothing was changed by showing it. Quote "+w.Header().Get("X-Request-Id")+".", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page) // the browser may be gone
}

// dict makes the arguments of a template that needs several.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %d arguments", len(pairs))
	}
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, is := pairs[i].(string)
		if !is {
			return nil, fmt.Errorf("dict: argument %d is no name", i+1)
		}
		out[name] = pairs[i+1]
	}
	return out, nil
}
