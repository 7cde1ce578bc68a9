package task

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/postrider/postrider/message"
)

// fields says which keys a mapping has and who reads each.
type fields map[string]func(n *node, path string)

// object reads a mapping. A key without a value is an unset one.
func (ps *problems) object(n *node, path string, known fields) {
	if n.kind != mappingNode {
		ps.add(n, path, "must be a mapping, lines of the form name: value, not %s", n.what())
		return
	}
	for _, p := range n.pairs {
		read, ok := known[p.key.text]
		switch path := within(path, p.key.text); {
		case !ok:
			ps.add(p.key, path, "unknown key%s", meant(ps, p.key.text, "key", slices.Sorted(maps.Keys(known))))
		case p.value.kind != nullNode:
			read(p.value, path)
		}
	}
}

// needs complains about keys that a mapping does not have.
func (ps *problems) needs(n *node, path string, keys ...string) {
	for _, key := range keys {
		if n.kind == mappingNode && n.get(key) == nil {
			ps.add(n, within(path, key), "is missing; add it")
		}
	}
}

// list reads a list.
func (ps *problems) list(n *node, path string, read func(n *node, path string)) {
	if n.kind != listNode {
		ps.add(n, path, "must be a list, not %s", n.what())
		return
	}
	for i, item := range n.items {
		read(item, at(path, i))
	}
}

// text reads a text; ok says that it is one.
func (ps *problems) text(n *node, path string) (s string, ok bool) {
	switch n.kind {
	case textNode:
		return n.text, true
	case numberNode, booleanNode:
		ps.add(n, path, "must be a text, not %s; put it in quotes", n.what())
	default:
		ps.add(n, path, "must be a text, not %s", n.what())
	}
	return "", false
}

// bounded reads a text of 1 to most bytes.
func (ps *problems) bounded(n *node, path string, most int) (string, bool) {
	s, ok := ps.text(n, path)
	if ok && (s == "" || len(s) > most) {
		ps.add(n, path, "must be a text of 1 to %d bytes, it has %d", most, len(s))
		return "", false
	}
	return s, ok
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// name reads the name of a template, a namespace or a state.
func (ps *problems) name(n *node, path string) (string, bool) {
	s, ok := ps.text(n, path)
	if ok && !nameForm.MatchString(s) {
		ps.add(n, path, "must be 1 to 128 letters, digits, underscores, dots and hyphens, not %s", n.what())
		return "", false
	}
	return s, ok
}

func (ps *problems) topic(n *node, path string) string {
	s, ok := ps.text(n, path)
	if ok && message.ValidTopic(s) != nil {
		ps.add(n, path, `must be a Kafka topic name, 1 to 249 letters, digits, dots, underscores and hyphens, and not "." or "..", not %s`, n.what())
	}
	return s
}

// whole reads a whole number of a range.
func (ps *problems) whole(n *node, path string, least, most int) (int, bool) {
	i, err := strconv.Atoi(n.text)
	if n.kind != numberNode || err != nil || i < least || i > most {
		ps.add(n, path, "must be a whole number from %d to %d, not %s", least, most, n.what())
		return 0, false
	}
	return i, true
}

func (ps *problems) boolean(n *node, path string) *bool {
	if n.kind != booleanNode {
		ps.add(n, path, "must be true or false, not %s", n.what())
		return nil
	}
	b := n.text == "true"
	return &b
}

// choice reads one of some words.
func choice[T ~string](ps *problems, n *node, path string, words []T) T {
	if n.kind == textNode && slices.Contains(words, T(n.text)) {
		return T(n.text)
	}
	ps.add(n, path, "must be one of %s, not %s", join(words), n.what())
	return ""
}

// free reads a value of some kinds that is kept as it is.
func (ps *problems) free(n *node, path, form string, kinds ...nodeKind) json.RawMessage {
	if !slices.Contains(kinds, n.kind) {
		ps.add(n, path, "must be %s, not %s", form, n.what())
		return nil
	}
	return n.json()
}

// placed is a name and where it stands.
type placed struct {
	name string
	node *node
	path string
}

// distinct reads a list of names, none of them twice.
func (ps *problems) distinct(n *node, path string) []placed {
	var all []placed
	seen := map[string]bool{}
	ps.list(n, path, func(n *node, path string) {
		switch s, ok := ps.bounded(n, path, 256); {
		case !ok:
		case seen[s]:
			ps.add(n, path, "%s is listed twice; keep one", s)
		default:
			seen[s] = true
			all = append(all, placed{s, n, path})
		}
	})
	return all
}

func namesOf(all []placed) []string {
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	return names
}
