package task

import (
	"encoding/json"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/yamldoc"
)

func parseYAML(data []byte, ps *problems) *node {
	root, wrong := yamldoc.Read(data)
	switch {
	case wrong != nil:
		ps.add(&node{line: wrong.Line}, "", "%s", wrong.Text)
		return nil
	case root == nil:
		ps.add(&node{line: 1}, "", "it is empty; postrider template example shows what may stand here")
		return nil
	}
	return fromYAML(root, "", 1, ps)
}

func fromYAML(y *yaml.Node, path string, depth int, ps *problems) *node {
	n := &node{line: y.Line}
	switch {
	case depth == maxDepth:
		ps.add(n, path, "it is nested more than %d levels deep; make it flatter", maxDepth)
	case y.Kind == yaml.AliasNode || y.Anchor != "":
		ps.add(n, path, "anchors and aliases are not supported; write the value out")
	case y.Style&yaml.TaggedStyle != 0:
		ps.add(n, path, "tags are not supported; leave %s out", shown(y.Tag))
	case y.Kind == yaml.MappingNode:
		n.kind = mappingNode
		for i := 0; i+1 < len(y.Content); i += 2 {
			key, value := y.Content[i], y.Content[i+1]
			name := &node{line: key.Line}
			if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!null" || key.ShortTag() == "!!merge" {
				ps.add(name, path, "merge keys and keys that are not plain are not supported; write the keys out")
				continue
			}
			path := within(path, key.Value)
			name.string(key.Value, path, ps)
			n.put(name, fromYAML(value, path, depth+1, ps), path, ps)
		}
	case y.Kind == yaml.SequenceNode:
		n.kind = listNode
		for i, item := range y.Content {
			n.items = append(n.items, fromYAML(item, at(path, i), depth+1, ps))
		}
	default:
		n.scalar(y, path, ps)
	}
	return n
}

func (n *node) scalar(y *yaml.Node, path string, ps *problems) {
	switch y.ShortTag() {
	case "!!null":
		n.kind = nullNode
	case "!!bool":
		var b bool
		_ = y.Decode(&b)
		n.kind, n.text = booleanNode, strconv.FormatBool(b)
	case "!!int", "!!float":
		text := y.Value
		if !json.Valid([]byte(text)) { // hexadecimal, underscores, a leading point or plus
			var value any
			_ = y.Decode(&value)
			encoded, err := json.Marshal(value)
			if err != nil {
				ps.add(n, path, "%s is not a number that JSON can write; put it in quotes if it is a text", shown(text))
				return
			}
			text = string(encoded)
		}
		n.number(text, path, ps)
	default: // a date, too, is only a text
		n.string(y.Value, path, ps)
	}
}
