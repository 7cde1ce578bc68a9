package console

import "net/http"

// typedFields are the texts of forms that are long to write, and what pages call them.
var typedFields = []pair{{"payload", "Payload"}, {"headers", "Headers"}, {"text", "Comment"}, {"note", "Note"}, {"notes", "Notes"}, {"why", "Why"}, {"results", "Results"}}

// typedIn are the texts of a form that was refused, so that the page that refuses it has them: going back asks the server for
// the form anew, which is empty then.
func typedIn(r *http.Request) []pair {
	if r.Method != http.MethodPost || r.PostForm == nil && readForm(r) != nil {
		return nil
	}
	var typed []pair
	for _, field := range typedFields {
		if text := r.PostForm.Get(field.Name); text != "" {
			typed = append(typed, pair{field.Value, text})
		}
	}
	return typed
}
