package console

import "strings"

// Unworded are the actions and kinds of things that the page of the audit log has no words for.
func Unworded(actions, kinds []string) (out []string) {
	for _, action := range actions {
		if deeds[action] == "" {
			out = append(out, action)
		}
	}
	for _, kind := range kinds {
		if things[kind].word == "" {
			out = append(out, kind)
		}
	}
	return out
}

// Page is a page or form of the console as tests walk it.
type Page struct {
	Method, Path string
	Takes        []string
}

// Pages are all pages and forms.
func Pages() (all []Page) {
	for _, p := range pages() {
		method, path, _ := strings.Cut(p.pattern, " ")
		all = append(all, Page{method, strings.TrimSuffix(path, "{$}"), p.takes})
	}
	return all
}

// Forms are the paths of all forms of the console, with parts filled in.
func Forms() []string {
	forms := []string{"/login", "/logout"}
	for _, p := range pages() {
		if method, path, _ := strings.Cut(p.pattern, " "); method != "GET" {
			forms = append(forms, strings.NewReplacer("{id}", "0192aaaa-0000-7000-8000-000000000008", "{command}", "start", "{comment}", "1", "{step}", "0192aaaa-0000-7000-8000-000000000009").Replace(path))
		}
	}
	return forms
}
