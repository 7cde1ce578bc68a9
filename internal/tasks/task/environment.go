package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// maxEnvironments bounds the work of checking them all.
const maxEnvironments = 20

// overridable are the keys that an environment may change. What identifies a template, and its machine, is the
// same everywhere.
var overridable = []string{
	"description", "domain_events", "events", "input_schema", "lifecycle", "max_retries", "metadata", "start_event",
	"steps", "system_dependencies", "task_handler",
}

// readEnvironments reads the overrides as they are; checkEnvironments checks the resulting templates.
func readEnvironments(n *node, path string, ps *problems) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	if n.kind != mappingNode {
		ps.add(n, path, "must be a mapping from names of environments to what differs there, not %s", n.what())
		return nil
	}
	if len(n.pairs) > maxEnvironments {
		ps.add(n, path, "has %d environments; a template has at most %d", len(n.pairs), maxEnvironments)
	}
	for _, p := range n.pairs {
		path := within(path, p.key.text)
		if _, ok := ps.name(p.key, path); !ok {
			continue
		}
		keys := fields{}
		for _, key := range overridable {
			keys[key] = func(*node, string) {}
		}
		if p.value.kind != nullNode {
			ps.object(p.value, path, keys)
		}
		all[p.key.text] = p.value.json()
	}
	return all
}

// checkEnvironments applies each environment and adds the mistakes that are only there.
func checkEnvironments(root, environments *node, ps *problems) {
	if len(environments.pairs) > maxEnvironments {
		return
	}
	var plain problems
	read(root, &plain)
	known := map[Problem]bool{}
	for _, problem := range plain {
		known[problem] = true
	}
	for _, p := range environments.pairs {
		path := within("environments", p.key.text)
		if p.value.kind != mappingNode {
			continue
		}
		var there problems
		merged := override(root, p.value, path, &there)
		read(merged, &there)
		for _, problem := range there {
			if known[problem] {
				continue
			}
			problem.Text += " (in the environment " + shown(p.key.text) + ")"
			*ps = append(*ps, problem)
		}
	}
}

// override returns a template as it is in an environment: mappings are merged key by key, steps by their names,
// everything else is replaced.
func override(root, over *node, path string, ps *problems) *node {
	merged := &node{kind: mappingNode, line: root.line}
	for _, p := range root.pairs {
		value := p.value
		if o := over.get(p.key.text); o != nil && slices.Contains(overridable, p.key.text) {
			if p.key.text == "steps" && value.kind == listNode && o.kind == listNode {
				value = overrideSteps(value, o, within(path, "steps"), ps)
			} else {
				value = merge(value, o)
			}
		}
		merged.pairs = append(merged.pairs, pair{p.key, value})
	}
	for _, p := range over.pairs {
		if !slices.ContainsFunc(root.pairs, func(own pair) bool { return own.key.text == p.key.text }) && slices.Contains(overridable, p.key.text) {
			merged.pairs = append(merged.pairs, p)
		}
	}
	return merged
}

func merge(base, over *node) *node {
	switch {
	case over.kind == nullNode:
		return base
	case base.kind != mappingNode || over.kind != mappingNode:
		return over
	}
	merged := &node{kind: mappingNode, line: base.line, pairs: slices.Clone(base.pairs)}
	index := map[string]int{}
	for i, p := range merged.pairs {
		index[p.key.text] = i
	}
	for _, p := range over.pairs {
		if i, there := index[p.key.text]; there {
			merged.pairs[i].value = merge(merged.pairs[i].value, p.value)
		} else {
			merged.pairs = append(merged.pairs, p)
		}
	}
	return merged
}

func overrideSteps(base, over *node, path string, ps *problems) *node {
	merged := &node{kind: listNode, line: base.line, items: slices.Clone(base.items)}
	var names []string
	for _, step := range base.items {
		if name := step.get("name"); name != nil {
			names = append(names, name.text)
		}
	}
	for i, o := range over.items {
		path := at(path, i)
		name := o.get("name")
		if name == nil || name.kind != textNode {
			ps.add(o, path, "must be a mapping with the name of the step that it changes")
			continue
		}
		found := slices.IndexFunc(merged.items, func(s *node) bool {
			n := s.get("name")
			return n != nil && n.text == name.text
		})
		if found < 0 {
			ps.add(name, within(path, "name"), "unknown step %s%s", shown(name.text), meant(ps, name.text, "step", names))
			continue
		}
		merged.items[found] = merge(merged.items[found], o)
	}
	return merged
}

// In returns the template as it is in an environment. Its Environments stay, so that it can be read again.
func (t *Template) In(environment string) (*Template, error) {
	over, ok := t.Environments[environment]
	if !ok {
		return nil, fmt.Errorf("the template %s has no environment %s%s", t, shown(environment), meant(new(problems), environment, "environment", slices.Sorted(maps.Keys(t.Environments))))
	}
	data, err := t.Encode()
	if err != nil {
		return nil, err
	}
	var ps problems
	merged := parse(data, &ps)
	if change := parse(over, &ps); merged != nil && change != nil {
		merged = override(merged, change, "environments."+environment, &ps)
	}
	if err := ps.err(t.String()); err != nil {
		return nil, err
	}
	in := read(merged, &ps)
	return in, ps.err(t.String())
}
