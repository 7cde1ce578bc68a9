// Package yamldoc reads YAML into nodes that know their lines, for readers whose errors name the line. A text from a caller
// of the API cannot make it expensive: nesting ends at 10000 levels, aliases are not followed, and the time grows with the
// text alone.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Mistake is why a text is not one document of YAML.
type Mistake struct {
	// Line is where the mistake is, from 1.
	Line int
	// Text says what the mistake is. It quotes nothing of the document, which may have a password there.
	Text string
}

// Error gives the line and the text.
func (m *Mistake) Error() string { return fmt.Sprintf("line %d: %s", m.Line, m.Text) }

// Read returns the only document of a text, or nil where the text has none. Keys that are there twice, aliases and anchors
// are the caller's to refuse. The Mistake is nil if the text can be read.
func Read(text []byte) (*yaml.Node, *Mistake) {
	var root *yaml.Node
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil:
			return nil, mistake(text, err)
		case len(doc.Content) == 0 || IsNull(doc.Content[0]): // nothing but a line of dashes
		case root != nil:
			return nil, &Mistake{doc.Line, "a second document begins here; a file holds one"}
		default:
			root = doc.Content[0]
		}
	}
}

// IsNull reports whether a node is a value that was left out, or null.
func IsNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

var (
	// written is how the parser writes its errors.
	written = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)
	// fromZero are the errors whose lines the parser counts from 0. It names where the broken list or mapping begins.
	fromZero = regexp.MustCompile(`^did not find expected (?:<|'|key|node content)|^found undefined tag handle`)
	// unknownAlias is the error that quotes the text, and has no line.
	unknownAlias = regexp.MustCompile(`(?s)^unknown anchor '(.*)' referenced$`)
)

// quoteIt follows an error that a text makes which only looks like an alias or an anchor.
const quoteIt = "; quote a text that begins with * or &"

// mistake says where a syntax error is.
func mistake(text []byte, err error) *Mistake {
	m, said, where := &Mistake{Line: 1}, err.Error(), ""
	if parts := written.FindStringSubmatch(said); parts != nil {
		said = parts[2]
		if n, err := strconv.Atoi(parts[1]); err == nil {
			m.Line = n
			if fromZero.MatchString(said) {
				m.Line++
				where = " in what begins here"
			}
			m.Line = min(m.Line, 1+bytes.Count(bytes.TrimRight(text, "\r\n"), []byte("\n"))) // the end is a line below
		}
	}
	if alias := unknownAlias.FindStringSubmatch(said); alias != nil {
		before, _, _ := bytes.Cut(text, []byte("*"+alias[1]))
		m.Line = 1 + bytes.Count(before, []byte("\n"))
		said = "an alias has no anchor" + quoteIt
	} else if said == "did not find expected alphabetic or numeric character" {
		said += quoteIt
	}
	m.Text = fmt.Sprintf("it is not valid YAML%s: %s", where, said)
	return m
}
