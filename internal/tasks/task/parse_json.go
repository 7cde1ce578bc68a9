package task

import (
	"bytes"
	"encoding/json"
)

// jsonReader walks valid JSON and keeps count of the lines.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
	ps   *problems
	line int
	seen int64 // how much of data is counted
	deep bool
}

func parseJSON(data []byte, ps *problems) *node {
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), ps: ps, line: 1}
	r.dec.UseNumber()
	return r.value("", 1)
}

// token returns the next token and a node at its line.
func (r *jsonReader) token() (json.Token, *node) {
	t, _ := r.dec.Token() // parse saw that it is valid
	end := r.dec.InputOffset()
	r.line += bytes.Count(r.data[r.seen:end], []byte("\n"))
	r.seen = end
	return t, &node{line: r.line}
}

func (r *jsonReader) value(path string, depth int) *node {
	t, n := r.token()
	if depth == maxDepth && !r.deep {
		r.deep = true // said once
		r.ps.add(n, path, "it is nested more than %d levels deep; make it flatter", maxDepth)
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			n.kind = listNode
			for r.dec.More() {
				if item := r.value(at(path, len(n.items)), depth+1); !r.deep {
					n.items = append(n.items, item)
				}
			}
		} else {
			n.kind = mappingNode
			for r.dec.More() {
				name, key := r.token()
				path := within(path, name.(string))
				key.string(name.(string), path, r.ps)
				if value := r.value(path, depth+1); !r.deep {
					n.put(key, value, path, r.ps)
				}
			}
		}
		_, _ = r.token() // the end
	case json.Number:
		n.number(t.String(), path, r.ps)
	case string:
		n.string(t, path, r.ps)
	case bool:
		n.kind, n.text = booleanNode, "false"
		if t {
			n.text = "true"
		}
	}
	return n
}
