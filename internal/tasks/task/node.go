package task

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a template, whatever it says.
const (
	maxBytes  = 1 << 20
	maxDepth  = 64
	maxDigits = 500
)

// nodeKind is what JSON would call a value.
type nodeKind int

const (
	nullNode nodeKind = iota
	booleanNode
	numberNode
	textNode
	listNode
	mappingNode
)

// node is a value of a template and its line. YAML and JSON both become nodes, so that both are read by
// the same rules.
type node struct {
	kind  nodeKind
	line  int
	text  string // of a text; of a number or boolean as JSON writes it
	items []*node
	pairs []pair
	keys  map[string]int // line of each key of a mapping
}

type pair struct {
	key   *node // a text
	value *node
}

// get returns the value of a key of a mapping, nil if it has none.
func (n *node) get(key string) *node {
	for _, p := range n.pairs {
		if p.key.text == key && p.value.kind != nullNode {
			return p.value
		}
	}
	return nil
}

// what describes a value for a message.
func (n *node) what() string {
	switch n.kind {
	case nullNode:
		return "nothing"
	case booleanNode:
		return n.text
	case numberNode:
		return "the number " + n.text
	case textNode:
		return "the text " + strconv.Quote(shown(n.text))
	case listNode:
		return "a list"
	default:
		return "a mapping"
	}
}

// json encodes a value in one line.
func (n *node) json() json.RawMessage {
	var b bytes.Buffer
	n.encode(&b)
	return b.Bytes()
}

func (n *node) encode(b *bytes.Buffer) {
	switch n.kind {
	case nullNode:
		b.WriteString("null")
	case textNode:
		encodeText(b, n.text)
	case listNode:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.encode(b)
		}
		b.WriteByte(']')
	case mappingNode:
		b.WriteByte('{')
		for i, p := range n.pairs {
			if i > 0 {
				b.WriteByte(',')
			}
			encodeText(b, p.key.text)
			b.WriteByte(':')
			p.value.encode(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString(n.text)
	}
}

func encodeText(b *bytes.Buffer, s string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a text always encodes
	b.Truncate(b.Len() - 1)
}

// parse turns YAML or JSON into nodes. It adds mistakes to ps, and returns nil if nothing can be read.
func parse(data []byte, ps *problems) *node {
	first := &node{line: 1}
	switch {
	case len(data) > maxBytes:
		ps.add(first, "", "it has %d bytes; a template has at most %d", len(data), maxBytes)
		return nil
	case !utf8.Valid(data):
		ps.add(&node{line: 1 + bytes.Count(data[:validPrefix(data)], []byte("\n"))}, "", "it is not UTF-8 text; save it as UTF-8")
		return nil
	case json.Valid(data):
		return parseJSON(data, ps)
	}
	return parseYAML(data, ps)
}

// validPrefix returns how many bytes come before the first that is not UTF-8.
func validPrefix(data []byte) int {
	n := 0
	for n < len(data) {
		r, size := utf8.DecodeRune(data[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// number checks that the database can hold a number, given as JSON writes it, and can give it back: it writes
// numbers out in full, without an exponent.
func (n *node) number(text, path string, ps *problems) {
	n.kind, n.text = numberNode, text
	mantissa, power, _ := strings.Cut(strings.ToLower(text), "e")
	exponent := 0
	f, err := strconv.ParseFloat(text, 64)
	if power != "" && err == nil {
		exponent, err = strconv.Atoi(power)
	}
	digits := len(mantissa) - strings.Count(mantissa, "-") - strings.Count(mantissa, ".")
	if err != nil || digits > maxDigits || max(exponent, -exponent) > maxDigits-digits || f == 0 && strings.ContainsAny(mantissa, "123456789") {
		ps.add(n, path, "the number %s is out of range; write it as a text, in quotes", shown(text))
		n.text = "0"
	}
}

// string checks that the database can hold a text.
func (n *node) string(text, path string, ps *problems) {
	n.kind, n.text = textNode, text
	if strings.ContainsRune(text, 0) {
		ps.add(n, path, "the text has a NUL character, which the database cannot hold; leave it out")
	}
}

// put adds a pair to a mapping, unless its key is there already.
func (n *node) put(key, value *node, path string, ps *problems) {
	if first, again := n.keys[key.text]; again {
		ps.add(key, path, "the key is set twice, first in line %d; keep one", first)
		return
	}
	if n.keys == nil {
		n.keys = map[string]int{}
	}
	n.keys[key.text] = key.line
	n.pairs = append(n.pairs, pair{key, value})
}

// within is the path of a key.
func within(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// at is the path of an item.
func at(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
