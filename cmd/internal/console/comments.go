package console

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/dlq"
)

// threadView are comments on a cause or an investigation, the oldest first.
type threadView struct {
	Comments []commentRow
	// Path is the page of what they are about.
	Path string
	// Later and First are addresses of other pages of the thread; empty for none.
	Later, First string
}

// MaxComment is how long a comment may be, in bytes, for the form.
func (threadView) MaxComment() int64 { return dlq.MaxComment }

// commentRow is a comment; Own says that the person wrote it, and so may delete it. Begins is its text, or the beginning of
// a long one, whose Rest is folded.
type commentRow struct {
	api.Comment
	Own          bool
	Begins, Rest string
}

// RestBytes is the length of what is folded.
func (c commentRow) RestBytes() int64 { return int64(len(c.Rest)) }

// A thread shows this much of a comment before it folds the rest: some lines, and at most so many bytes.
const (
	commentLines = 12
	commentBytes = 1200
)

// rowOfComment is a comment as the thread shows it.
func rowOfComment(c api.Comment, own bool) commentRow {
	whole := text(c.Text)
	end, lines := 0, 0
	for line := range strings.Lines(whole) {
		if lines++; lines > commentLines || end+len(line) > commentBytes {
			break
		}
		end += len(line)
	}
	if end == 0 && whole != "" { // the first line is long by itself
		for end = min(commentBytes, len(whole)); end < len(whole) && !utf8.RuneStart(whole[end]); end-- {
		}
	}
	if len(whole)-end < commentBytes/10 && lines <= commentLines { // not worth a fold
		end = len(whole)
	}
	return commentRow{c, own, whole[:end], whole[end:]}
}

// threadOf reads a page of the comments on what the API has at a path and the console at another.
func (v *visit) threadOf(at, path string) (*threadView, error) {
	q := url.Values{"page_size": {"25"}}
	if after := v.param("comments"); after != "" {
		q.Set("after", after)
	}
	found, err := get[api.List[api.Comment]](v, at+"/comments", q)
	if err != nil {
		return nil, err
	}
	t := &threadView{Path: path}
	for _, c := range found.Items {
		t.Comments = append(t.Comments, rowOfComment(c, c.AuthorID == v.person.Person))
	}
	if found.Next != nil {
		t.Later = v.with("comments", *found.Next) + "#comments"
	}
	if v.param("comments") != "" {
		t.First = v.with("comments", "") + "#comments"
	}
	return t, nil
}

// Comments on a cause and on an investigation are the same, at other paths.

func commentOnCause(v *visit) (string, error)     { return v.comment("/groups/", "/causes/") }
func commentOnLetter(v *visit) (string, error)    { return v.comment("/dlq/", "/investigations/") }
func deleteCauseComment(v *visit) (string, error) { return v.deleteComment("/groups/", "/causes/") }
func deleteLetterComment(v *visit) (string, error) {
	return v.deleteComment("/dlq/", "/investigations/")
}

func (v *visit) comment(at, page string) (string, error) {
	_, err := ask[api.Comment](v, http.MethodPost, at+v.id()+"/comments", nil, map[string]any{"text": strings.TrimSpace(v.PostFormValue("text"))})
	if err == nil {
		v.say("It stands in the thread, with your name.")
	}
	return page + v.id() + "#comments", err
}

func (v *visit) deleteComment(at, page string) (string, error) {
	_, err := ask[api.Comment](v, http.MethodDelete, at+v.id()+"/comments/"+url.PathEscape(v.PathValue("comment")), nil, nil)
	if err == nil {
		v.say("Its text is gone.")
	}
	return page + v.id() + "#comments", err
}
