package wire

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// nodeKind is a kind of value in JSON.
type nodeKind string

const (
	nodeNull    nodeKind = "null"
	nodeBoolean nodeKind = "boolean"
	nodeNumber  nodeKind = "number"
	nodeString  nodeKind = "string"
	nodeArray   nodeKind = "array"
	nodeObject  nodeKind = "object"
)

// node is a value in JSON.
type node struct {
	kind nodeKind
	// text is a string, or a number or a boolean as it is written.
	text  string
	items []node   // of an array or an object
	names []string // of an object's items
	// places has the items of an object with many members by name.
	places map[string]int
}

// Limits of Jackson, which refuses more.
const (
	maxDepth       = 1000
	maxNumberBytes = 1000
	maxNameBytes   = 50_000
)

// maxValues bounds the values of a payload that is expanded: each takes about a hundred bytes of memory.
const maxValues = 1 << 20

var errNotJSON = errors.New("this is not JSON")

// parser reads JSON as Jackson does by default. Package encoding/json keeps neither the order of members nor lone halves of
// surrogate pairs.
type parser struct {
	s      string
	at     int
	depth  int
	values int
}

// parse reads the value with which a text begins, and returns where it ends: Jackson does not look at what follows. Of
// members with one name the last counts, in the place of the first.
func parse(s string) (n node, end int, err error) {
	p := parser{s: s}
	n, err = p.value()
	return n, p.at, err
}

func (p *parser) space() {
	for p.at < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

// next takes the next character behind white space if it is this one.
func (p *parser) next(c byte) bool {
	p.space()
	if p.at < len(p.s) && p.s[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) value() (node, error) {
	if p.values++; p.values > maxValues {
		return node{}, errTooLarge
	}
	p.space()
	if p.at == len(p.s) {
		return node{}, errNotJSON
	}
	switch c := p.s[p.at]; {
	case c == '{' || c == '[':
		if p.depth++; p.depth > maxDepth {
			return node{}, errNotJSON
		}
		p.at++
		n, err := p.inside(c == '{')
		p.depth--
		return n, err
	case c == '"':
		text, err := p.text()
		return node{kind: nodeString, text: text}, err
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for _, word := range [...]node{{kind: nodeNull, text: "null"}, {kind: nodeBoolean, text: "true"}, {kind: nodeBoolean, text: "false"}} {
		if strings.HasPrefix(p.s[p.at:], word.text) {
			p.at += len(word.text)
			return word, nil
		}
	}
	return node{}, errNotJSON
}

// inside reads the rest of an object or an array.
func (p *parser) inside(object bool) (n node, err error) {
	n, end := node{kind: nodeArray, items: []node{}}, byte(']')
	if object {
		n.kind, end = nodeObject, '}'
	}
	if p.next(end) {
		return n, nil
	}
	for {
		name := ""
		if object {
			if p.space(); p.at == len(p.s) || p.s[p.at] != '"' {
				return n, errNotJSON
			}
			if name, err = p.text(); err != nil || len(name) > maxNameBytes || !p.next(':') {
				return n, errNotJSON
			}
		}
		item, err := p.value()
		if err != nil {
			return n, err
		}
		if place, again := n.place(name); object && again {
			n.items[place] = item
		} else {
			if n.items = append(n.items, item); object {
				n.named(name)
			}
		}
		switch {
		case p.next(','):
		case p.next(end):
			return n, nil
		default:
			return n, errNotJSON
		}
	}
}

// fewMembers is how many members are looked through one by one.
const fewMembers = 16

// named adds the name of the newest item.
func (n *node) named(name string) {
	n.names = append(n.names, name)
	switch {
	case n.places != nil:
		n.places[name] = len(n.names) - 1
	case len(n.names) > fewMembers:
		n.places = make(map[string]int, 2*len(n.names))
		for i, name := range n.names {
			n.places[name] = i
		}
	}
}

// place returns where an object has a member.
func (n *node) place(name string) (int, bool) {
	if n.places != nil {
		i, there := n.places[name]
		return i, there
	}
	i := slices.Index(n.names, name)
	return i, i >= 0
}

func (p *parser) digits() (n int) {
	for p.at < len(p.s) && p.s[p.at] >= '0' && p.s[p.at] <= '9' {
		p.at++
		n++
	}
	return n
}

func (p *parser) number() (node, error) {
	begin := p.at
	if p.s[p.at] == '-' {
		p.at++
	}
	zero := p.at < len(p.s) && p.s[p.at] == '0'
	if n := p.digits(); n == 0 || zero && n > 1 {
		return node{}, errNotJSON
	}
	if p.at < len(p.s) && p.s[p.at] == '.' {
		if p.at++; p.digits() == 0 {
			return node{}, errNotJSON
		}
	}
	if p.at < len(p.s) && p.s[p.at]|0x20 == 'e' {
		if p.at++; p.at < len(p.s) && (p.s[p.at] == '+' || p.s[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			return node{}, errNotJSON
		}
	}
	if p.at-begin > maxNumberBytes {
		return node{}, errNotJSON
	}
	return node{kind: nodeNumber, text: p.s[begin:p.at]}, nil
}

// text reads a string, which begins here.
func (p *parser) text() (string, error) {
	p.at++
	begin := p.at
	var out []byte // once there was an escape
	for {
		if p.at == len(p.s) || p.s[p.at] < ' ' {
			return "", errNotJSON
		}
		c := p.s[p.at]
		p.at++
		switch {
		case c == '"' && out == nil:
			return p.s[begin : p.at-1], nil
		case c == '"':
			return string(out), nil
		case c != '\\':
			if out != nil {
				out = append(out, c)
			}
			continue
		}
		if out == nil {
			out = append(make([]byte, 0, p.at-begin+16), p.s[begin:p.at-1]...)
		}
		r, err := p.escape()
		if err != nil {
			return "", err
		}
		out = appendUnit(out, r)
	}
}

// escape reads the text behind a backslash.
func (p *parser) escape() (rune, error) {
	if p.at == len(p.s) {
		return 0, errNotJSON
	}
	c := p.s[p.at]
	p.at++
	if c != 'u' {
		if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
			return rune("\"\\/\b\f\n\r\t"[i]), nil
		}
		return 0, errNotJSON
	}
	if len(p.s)-p.at < 4 {
		return 0, errNotJSON
	}
	u, err := strconv.ParseUint(p.s[p.at:p.at+4], 16, 16)
	if err != nil {
		return 0, errNotJSON
	}
	p.at += 4
	return rune(u), nil
}

// appendUnit appends a unit of UTF-16. The second half of a pair is put together with the first.
func appendUnit(to []byte, r rune) []byte {
	if r >= 0xdc00 && r <= 0xdfff && len(to) >= 3 {
		if high, size := decode(string(to[len(to)-3:])); size == 3 && high >= 0xd800 && high < 0xdc00 {
			return appendCharacter(to[:len(to)-3], 0x10000+(high-0xd800)<<10+(r-0xdc00))
		}
	}
	return appendCharacter(to, r)
}
