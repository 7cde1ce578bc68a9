package dlq

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider/message"
)

// Redacted stands in place of what a rule of redaction hides.
const Redacted = "[redacted]"

// RedactionRules say what snapshots do not show. The letters keep everything; see Investigations.Reveal.
type RedactionRules struct {
	// Paths name values in JSON payloads, and in the snapshots and contexts of tasks: $.card.number,
	// $.items[*].pan, $..password for any depth, ["a.b"] for names with dots. Defaults to none.
	Paths []string
	// Headers name headers, in large or small letters; * stands for any characters. Defaults to none; the settings of
	// the program have headers that usually carry credentials.
	Headers []string
}

// Redactor applies rules. Nil is one without rules.
type Redactor struct {
	paths [][]step
	// names are headers named whole, in small letters. patterns are the others; slashes are replaced in them, because a *
	// would stop at one. Most installations have none, and a collector asks about every header of every letter.
	names    map[string]bool
	patterns []string
}

// step is one part of a path.
type step struct {
	name string // of a member
	any  bool   // every member and element
	deep bool   // at any depth below
	at   int    // the element, where name is "" and any is false
}

// NewRedactor checks the rules. Without any it returns nil.
func NewRedactor(r RedactionRules) (*Redactor, error) {
	var all Redactor
	for _, rule := range r.Paths {
		steps, err := parsePath(rule)
		if err != nil {
			return nil, fmt.Errorf("redaction of %q: %w", rule, err)
		}
		all.paths = append(all.paths, steps)
	}
	for _, name := range r.Headers {
		name = strings.ToLower(name)
		if _, err := path.Match(name, ""); err != nil || name == "" {
			return nil, fmt.Errorf("redaction of header %q: it is no name, and no pattern with *", name)
		}
		if !strings.ContainsAny(name, `*?[\`) {
			if all.names == nil {
				all.names = map[string]bool{}
			}
			all.names[name] = true
			continue
		}
		all.patterns = append(all.patterns, slashless(name))
	}
	if len(all.paths) == 0 && !all.hasHeaders() {
		return nil, nil
	}
	return &all, nil
}

// parsePath reads a JSON path.
func parsePath(text string) (steps []step, err error) {
	rest := strings.TrimPrefix(text, "$")
	if rest == text && !strings.HasPrefix(rest, "[") {
		rest = "." + rest // the $ may be left out
	}
	for rest != "" {
		var s step
		switch {
		case strings.HasPrefix(rest, "..["):
			s.deep, rest = true, rest[2:]
			rest, err = s.bracket(rest)
		case strings.HasPrefix(rest, ".."):
			s.deep = true
			rest, err = s.dot(rest[2:])
		case strings.HasPrefix(rest, "."):
			rest, err = s.dot(rest[1:])
		case strings.HasPrefix(rest, "["):
			rest, err = s.bracket(rest)
		default:
			err = fmt.Errorf("%q is neither .name nor [index]", rest)
		}
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("it names nothing")
	}
	return steps, nil
}

// dot reads a name up to the next dot or bracket.
func (s *step) dot(text string) (rest string, err error) {
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		end = len(text)
	}
	s.name, rest = text[:end], text[end:]
	if s.name == "" {
		return "", fmt.Errorf("a name is missing")
	}
	if s.name == "*" {
		s.name, s.any = "", true
	}
	return rest, nil
}

// bracket reads [*], [0] or ["name"].
func (s *step) bracket(text string) (rest string, err error) {
	if strings.HasPrefix(text, `["`) {
		end := strings.Index(text, `"]`)
		if end < 3 {
			return "", fmt.Errorf(`%q has no name that ends with "]`, text)
		}
		s.name = text[2:end]
		return text[end+2:], nil
	}
	end := strings.IndexByte(text, ']')
	if end < 0 {
		return "", fmt.Errorf("%q has no ]", text)
	}
	inner := text[1:end]
	if inner == "*" {
		s.any = true
		return text[end+1:], nil
	}
	if s.at, err = strconv.Atoi(inner); err != nil || s.at < 0 {
		return "", fmt.Errorf(`%q is no index, * or "name"`, inner)
	}
	return text[end+1:], nil
}

// Headers returns the headers with the values hidden that a rule names.
func (r *Redactor) Headers(hs []message.Header) []message.Header {
	if !r.hasHeaders() {
		return hs
	}
	out := make([]message.Header, len(hs))
	for i, h := range hs {
		if out[i] = h; r.hidesHeader(h) {
			out[i].Value = []byte(Redacted)
		}
	}
	return out
}

// Operation returns an operation as it may be shown: of the headers that its messages are given, the ones that a rule
// names are hidden. They are sent as they were given.
func (r *Redactor) Operation(o Operation) Operation {
	if !r.hasHeaders() || len(o.Options.Headers) == 0 {
		return o
	}
	shown := make([][]string, len(o.Options.Headers))
	for i, pair := range o.Options.Headers {
		if shown[i] = pair; len(pair) == 2 && r.hidesHeader(message.Header{Name: pair[0], Value: []byte(pair[1])}) {
			shown[i] = []string{pair[0], Redacted}
		}
	}
	o.Options.Headers = shown
	return o
}

// hidesHeader reports whether the value of a header is hidden: by a rule that names it. The header with the headers of
// an event's row is hidden if a rule names any of them; also when that cannot be told.
func (r *Redactor) hidesHeader(h message.Header) bool {
	if h.Name != message.HeaderInvalidHeaders || !r.hasHeaders() || r.hides(h.Name) {
		return r.hides(h.Name)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(h.Value, &object) == nil {
		return slices.ContainsFunc(slices.Collect(maps.Keys(object)), r.hides)
	}
	var pairs [][]json.RawMessage
	if json.Unmarshal(h.Value, &pairs) != nil {
		return r.mayName(string(h.Value))
	}
	return slices.ContainsFunc(pairs, func(pair []json.RawMessage) bool {
		var name string
		return len(pair) == 0 || json.Unmarshal(pair[0], &name) != nil || r.hides(name)
	})
}

func (r *Redactor) hides(header string) bool {
	header = strings.ToLower(header)
	if r.names[header] {
		return true
	}
	for _, pattern := range r.patterns {
		if hidden, _ := path.Match(pattern, slashless(header)); hidden {
			return true
		}
	}
	return false
}

// mayName reports whether a text that is no JSON may contain a hidden header. It certainly has none if all rules are
// names, none of them is in the text, and nothing in the text is escaped.
func (r *Redactor) mayName(text string) bool {
	text = strings.ToLower(text)
	if len(r.patterns) > 0 || strings.Contains(text, `\`) {
		return true
	}
	for name := range r.names {
		if strings.Contains(text, name) {
			return true
		}
	}
	return false
}

// slashless has another character for each slash, at which * would stop.
func slashless(text string) string { return strings.ReplaceAll(text, "/", "\x00") }

// hasHeaders reports whether there are rules about headers.
func (r *Redactor) hasHeaders() bool { return r != nil && len(r.names)+len(r.patterns) > 0 }

// hasPaths reports whether there are rules about values.
func (r *Redactor) hasPaths() bool { return r != nil && len(r.paths) > 0 }

// JSON returns a JSON value with everything hidden that a rule names, at its root and below the given members of it. If
// nothing is hidden, it is the same text.
func (r *Redactor) JSON(raw json.RawMessage, below ...string) json.RawMessage {
	if !r.hasPaths() {
		return raw
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // numbers stay as they are written
	var v any
	if dec.Decode(&v) != nil {
		return marshal(Redacted)
	}
	changed := false
	hide := func(root any) (out any) {
		for _, p := range r.paths {
			root = redact(root, p, &changed)
		}
		return root
	}
	v = hide(v)
	if object, ok := v.(map[string]any); ok {
		for _, name := range below {
			if part, there := object[name]; there {
				object[name] = hide(part)
			}
		}
	}
	if !changed {
		return raw
	}
	return marshal(v)
}

// redact returns v with what the path names replaced.
func redact(v any, p []step, changed *bool) any {
	if len(p) == 0 {
		*changed = true
		return Redacted
	}
	s := p[0]
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if s.any || s.name != "" && s.name == name {
				member = redact(member, p[1:], changed)
			}
			if s.deep {
				member = redact(member, p, changed)
			}
			v[name] = member
		}
	case []any:
		for i, element := range v {
			if s.any || s.name == "" && s.at == i {
				element = redact(element, p[1:], changed)
			}
			if s.deep {
				element = redact(element, p, changed)
			}
			v[i] = element
		}
	}
	return v
}
