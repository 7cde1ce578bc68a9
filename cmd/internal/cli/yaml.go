package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// asYAML renders JSON as YAML: the structure in blocks, numbers as they are written, and each text in double quotes with its
// control characters escaped. So no text is taken for anything else, and none can move the cursor of a terminal. Libraries
// leave quotes out where a reader of YAML does not need them, and a terminal would obey such a text.
func asYAML(encoded []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(encoded))
	dec.UseNumber()
	var b strings.Builder
	if err := yamlValue(&b, dec, 0); err != nil {
		return "", err
	}
	return strings.TrimLeft(b.String(), " \n"), nil
}

// yamlValue writes what follows a key or a dash: a text on the same line, or lines of their own.
func yamlValue(b *strings.Builder, dec *json.Decoder, depth int) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	open, block := token.(json.Delim)
	if !block {
		return yamlScalar(b, token)
	}
	if !dec.More() {
		fmt.Fprintf(b, " %c%c\n", open, open+2) // {} or []
		_, err := dec.Token()
		return err
	}
	b.WriteString("\n")
	for dec.More() {
		b.WriteString(strings.Repeat("  ", depth))
		if open == '[' {
			b.WriteString("-")
		} else {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			b.WriteString(yamlKey(fmt.Sprint(key)) + ":")
		}
		if err := yamlValue(b, dec, depth+1); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// yamlKey leaves the names of fields as they are.
func yamlKey(name string) string {
	for _, r := range name {
		if (r < 'a' || r > 'z') && r != '_' {
			return yamlText(name)
		}
	}
	switch name {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return yamlText(name)
	}
	return name
}

// yamlText is a text in double quotes. The escapes of JSON are YAML's as well, but for the pairs of large characters, which
// not every reader of YAML puts together.
func yamlText(s string) string {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always can be
	var b strings.Builder
	for _, r := range strings.TrimSuffix(text.String(), "\n") {
		switch {
		case strconv.IsPrint(r) && r != utf8.RuneError:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func yamlScalar(b *strings.Builder, token json.Token) error {
	switch v := token.(type) {
	case nil:
		b.WriteString(" null\n")
	case bool:
		b.WriteString(" " + strconv.FormatBool(v) + "\n")
	case json.Number:
		b.WriteString(" " + v.String() + "\n")
	case string:
		b.WriteString(" " + yamlText(v) + "\n")
	default:
		return fmt.Errorf("encode the result: %v is no value", v)
	}
	return nil
}

// writeYAML is output.print for YAML.
func writeYAML(w io.Writer, encoded []byte) error {
	text, err := asYAML(encoded)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}
