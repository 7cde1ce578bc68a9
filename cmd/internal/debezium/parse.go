// Package debezium reads the configuration of a Debezium connector for PostgreSQL with the outbox event router, and says of
// each of its knobs whether Postrider does the same. It asks neither the database nor the brokers.
package debezium

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider/internal/wire"
)

// Properties are the settings of a connector by their names, as they were given. There are passwords among them: print
// single values, and only of names that are known.
type Properties map[string]string

// Parse reads the configuration of a connector: JSON as Connect's REST API takes and gives it, with the settings under
// "config" or at the top, or a file of Java properties as connect-standalone takes it. Errors quote names and no values.
func Parse(data []byte) (Properties, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		return parseJSON(trimmed)
	}
	p := Properties(wire.ReadProperties(string(data)))
	if len(p) == 0 {
		return nil, errors.New("there are no settings in it; JSON or Java properties are read")
	}
	return p, p.refuseOthers()
}

// refuseOthers refuses files that look like the configuration of a connector and are another program's.
func (p Properties) refuseOthers() error {
	for name := range p {
		if strings.HasPrefix(name, "debezium.source.") {
			return errors.New("this is the configuration of Debezium Server; write its debezium.source.* and debezium.transforms* settings without debezium.source. and debezium. into a file of their own")
		}
	}
	return nil
}

func parseJSON(data []byte) (Properties, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var top map[string]any
	if err := dec.Decode(&top); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("it is no JSON in line %d", 1+bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n")))
		}
		return nil, errors.New("it is no JSON object")
	}
	if dec.More() {
		return nil, errors.New("there is something behind the JSON object")
	}
	settings := top
	if inner, is := top["config"].(map[string]any); is {
		settings = inner
	}
	p := Properties{}
	for name, value := range settings {
		switch v := value.(type) {
		case string:
			p[name] = v
		case json.Number:
			p[name] = v.String()
		case bool:
			p[name] = strconv.FormatBool(v)
		case nil:
		default:
			return nil, fmt.Errorf("%s is neither a text nor a number nor true or false", name)
		}
	}
	if name, is := top["name"].(string); is && p["name"] == "" {
		p["name"] = name
	}
	return p, p.refuseOthers()
}

// WithWorker adds the converters of the worker's configuration where the connector has none of its own.
func (p Properties) WithWorker(worker Properties) Properties {
	all := Properties{}
	for name, value := range p {
		all[name] = value
	}
	for _, converter := range []string{"key.converter", "value.converter", "header.converter"} {
		if p[converter] != "" {
			continue // its options belong to it, too
		}
		for name, value := range worker {
			if name == converter || strings.HasPrefix(name, converter+".") {
				all[name] = value
			}
		}
	}
	return all
}

// list splits a value as Connect does: by commas, without blanks around the parts.
func list(value string) []string {
	var parts []string
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func (p Properties) names() []string {
	names := make([]string, 0, len(p))
	for name := range p {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
