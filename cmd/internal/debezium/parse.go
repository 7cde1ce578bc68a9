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
	p := parseProperties(string(data))
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

// parseProperties reads text as java.util.Properties does: # and ! begin comments, a line that ends in a backslash goes on,
// and =, : or white space end a name.
func parseProperties(text string) Properties {
	p := Properties{}
	for line := range logicalLines(text) {
		end := nameEnd(line)
		rest := strings.TrimLeft(line[end:], " \t\f")
		if rest != "" && (rest[0] == '=' || rest[0] == ':') {
			rest = strings.TrimLeft(rest[1:], " \t\f")
		}
		p[unescape(line[:end])] = unescape(rest)
	}
	return p
}

// logicalLines yields lines without comments, with the lines that go on put together.
func logicalLines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		var whole strings.Builder
		going := false
		for line := range strings.SplitSeq(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n"), "\n") {
			line = strings.TrimLeft(line, " \t\f")
			if !going && (line == "" || line[0] == '#' || line[0] == '!') {
				continue
			}
			body := strings.TrimRight(line, `\`)
			if going = (len(line)-len(body))%2 == 1; going {
				line = line[:len(line)-1]
			}
			whole.WriteString(line)
			if going {
				continue
			}
			if !yield(whole.String()) {
				return
			}
			whole.Reset()
		}
		if whole.Len() > 0 {
			yield(whole.String())
		}
	}
}

// nameEnd is where the name of a setting ends.
func nameEnd(line string) int {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '=', ':', ' ', '\t', '\f':
			return i
		}
	}
	return len(line)
}

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			out.WriteByte('\n')
		case 't':
			out.WriteByte('\t')
		case 'r':
			out.WriteByte('\r')
		case 'f':
			out.WriteByte('\f')
		case 'u':
			if i+5 <= len(s) {
				if r, err := strconv.ParseUint(s[i+1:i+5], 16, 16); err == nil {
					out.WriteRune(rune(r))
					i += 4
					continue
				}
			}
			out.WriteByte('u')
		default:
			out.WriteByte(s[i])
		}
	}
	return out.String()
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
