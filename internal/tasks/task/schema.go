package task

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// schemaTypes are the words of the keyword type.
var schemaTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// keyword checks the value of a keyword.
type keyword func(n *node, path string, ps *problems)

// schemaKeywords are the keywords that an input_schema may have: the ones that the check in the database understands,
// and annotations. It is filled by init, because schemas contain schemas.
var schemaKeywords map[string]keyword

// supported names them in messages.
var supported string

func init() {
	note := func(*node, string, *problems) {}
	schemaKeywords = map[string]keyword{
		"type": checkType, "properties": checkProperties, "required": checkRequired,
		"additionalProperties": checkSchema, "items": checkSchema, "enum": checkEnum, "const": note,
		"minimum": checkNumber, "maximum": checkNumber, "exclusiveMinimum": checkNumber, "exclusiveMaximum": checkNumber,
		"minLength": checkCount, "maxLength": checkCount, "minItems": checkCount, "maxItems": checkCount,
		"pattern": checkPattern, "allOf": checkSchemas, "anyOf": checkSchemas, "oneOf": checkSchemas, "not": checkSchema,
		"$schema": note, "$id": note, "$comment": note, "title": note, "description": note, "default": note,
		"examples": note, "deprecated": note, "readOnly": note, "writeOnly": note, "format": note,
	}
	supported = join(SchemaKeywords())
}

// SchemaKeywords returns the keywords of JSON Schema that an input_schema may have, sorted.
func SchemaKeywords() []string { return slices.Sorted(maps.Keys(schemaKeywords)) }

// checkSchema checks a schema. Unlike elsewhere, null is a value there: const and default may be null.
func checkSchema(n *node, path string, ps *problems) {
	switch n.kind {
	case booleanNode: // anything, or nothing
		return
	case mappingNode:
	default:
		ps.add(n, path, "must be a schema, which is a mapping, true or false, not %s", n.what())
		return
	}
	for _, p := range n.pairs {
		path := within(path, p.key.text)
		if check, ok := schemaKeywords[p.key.text]; ok {
			check(p.value, path, ps)
		} else {
			ps.add(p.key, path, "the keyword is not supported; there are %s", supported)
		}
	}
}

func checkType(n *node, path string, ps *problems) {
	if n.kind != listNode {
		choice(ps, n, path, schemaTypes)
		return
	}
	notEmpty(n, path, ps)
	for i, item := range n.items {
		choice(ps, item, at(path, i), schemaTypes)
	}
}

func checkProperties(n *node, path string, ps *problems) {
	if n.kind != mappingNode {
		ps.add(n, path, "must be a mapping from names to schemas, not %s", n.what())
		return
	}
	for _, p := range n.pairs {
		checkSchema(p.value, within(path, p.key.text), ps)
	}
}

func checkRequired(n *node, path string, ps *problems) {
	ps.list(n, path, func(n *node, path string) { ps.text(n, path) })
}

func checkEnum(n *node, path string, ps *problems) {
	ps.list(n, path, func(*node, string) {})
	notEmpty(n, path, ps)
}

func checkNumber(n *node, path string, ps *problems) {
	if n.kind != numberNode {
		ps.add(n, path, "must be a number, not %s", n.what())
	}
}

func checkCount(n *node, path string, ps *problems) {
	if i, err := strconv.ParseInt(n.text, 10, 32); n.kind != numberNode || err != nil || i < 0 {
		ps.add(n, path, "must be a whole number from 0 on, not %s", n.what())
	}
}

// checkPattern takes patterns that Go and PostgreSQL read in the same way.
func checkPattern(n *node, path string, ps *problems) {
	text, ok := ps.text(n, path)
	if !ok {
		return
	}
	if _, err := regexp.Compile(text); err != nil {
		ps.add(n, path, "is not a regular expression: %s", shown(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
	} else if part := foreign(text); part != "" {
		ps.add(n, path, "has %s, which PostgreSQL does not take, or reads in another way; write it differently", shown(part))
	}
}

func checkSchemas(n *node, path string, ps *problems) {
	ps.list(n, path, func(n *node, path string) { checkSchema(n, path, ps) })
	notEmpty(n, path, ps)
}

func notEmpty(n *node, path string, ps *problems) {
	if n.kind == listNode && len(n.items) == 0 {
		ps.add(n, path, "is empty; add something, or leave the key out")
	}
}
