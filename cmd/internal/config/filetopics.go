package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/internal/yamldoc"
)

// topics reads the list of rules for topics.
func (f *fileReader) topics(body *yaml.Node) {
	if yamldoc.IsNull(body) {
		return // all rules are commented out
	}
	if !isList(body) {
		f.problem(body, "the section %s must be a list of rules, each beginning with - match: TOPIC", topicsSection)
		return
	}
	for n, item := range body.Content {
		f.rule(n+1, item)
	}
}

// rule reads one rule and keeps it when there is nothing wrong with its name. Whatever else is wrong
// with it is reported, and stops the start.
func (f *fileReader) rule(number int, body *yaml.Node) {
	label := fmt.Sprintf("rule %d of %s", number, topicsSection)
	if yamldoc.IsNull(body) {
		f.problem(body, "%s is empty; write - match: TOPIC and what it sets, or remove it", label)
		return
	}
	r := TopicRule{origin: fmt.Sprintf("%s:%d", f.path, body.Line)}
	complete, wrong := false, len(f.problems)
	for name, value := range f.pairs(body, label) {
		key := name.Value
		switch _, known := topicKey(key); {
		case f.twice(name, label+": "+key):
		case key == "match":
			r.match, complete = f.match(label, value)
		case key == wireKey && !yamldoc.IsNull(value):
			r.wire, r.wireOrigin = f.wire(label, value), fmt.Sprintf("%s:%d", f.path, value.Line)
		case key == wireKey:
		case !known:
			f.problem(name, "unknown key %s in %s; the nearest key is %s", shown(key), label, Nearest(key, append(TopicKeys(), "match", wireKey)))
		case yamldoc.IsNull(value): // a key without a value is an unset one
		default:
			f.topicValue(&r, label, key, value)
		}
	}
	_, matched := f.seen[label+": match"]
	switch {
	case !isMapping(body): // reported
	case !matched:
		f.problem(body, "%s has no match: add match: with a topic name, or a glob with * and ?", label)
	case complete && len(r.values) == 0 && r.wire == nil && len(f.problems) == wrong:
		f.problem(body, "%s, for %s, sets nothing; give it one of %s, or remove it", label, shown(r.match), strings.Join(append(TopicKeys(), wireKey), ", "))
	case complete:
		f.rules = append(f.rules, r)
	}
}

func (f *fileReader) match(label string, value *yaml.Node) (glob string, ok bool) {
	glob, ok = scalar(value)
	if !ok {
		f.problem(value, "match of %s must be a plain value: a topic name, or a glob with * and ?; quote one that begins with *", label)
		return "", false
	}
	if err := checkGlob(glob); err != nil {
		f.problem(value, "match of %s%s: %v", label, found{text: glob}.quoted(), err)
		return "", false
	}
	if f.twice(value, "the rule for "+glob) {
		return "", false
	}
	return glob, true
}

func (f *fileReader) topicValue(r *TopicRule, label, name string, value *yaml.Node) {
	text, ok := scalar(value)
	if !ok {
		f.problem(value, "%s of %s must be a plain value, not %s", name, label, kindOf(value))
		return
	}
	k, _ := topicKey(name)
	v, err := newTopicValue(name, foundValue(k, text, fmt.Sprintf("%s:%d", f.path, value.Line)))
	if err != nil {
		f.problem(value, "%s of %s%s: %v", name, label, v.quoted(), err)
		f.wrong[k.String()] = true
		return
	}
	r.values = append(r.values, v)
}
