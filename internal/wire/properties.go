package wire

import (
	"strings"

	"github.com/postrider/postrider/internal/tracecontext"
	"github.com/postrider/postrider/message"
)

// traceOf returns the headers of a trace's context that is given as the text of java.util.Properties; none where the text has
// no traceparent that can be read.
func traceOf(text string) []message.Header {
	properties := ReadProperties(text)
	hs := []message.Header{{Name: "traceparent", Value: []byte(properties["traceparent"])}}
	if tracecontext.ID(hs) == "" {
		return nil
	}
	if state := properties["tracestate"]; state != "" {
		hs = append(hs, message.Header{Name: "tracestate", Value: []byte(state)})
	}
	return hs
}

// ReadProperties reads the format of java.util.Properties: # and ! begin comments, a line that ends in a backslash goes on, and
// =, : or white space end a name.
func ReadProperties(text string) map[string]string {
	properties := map[string]string{}
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimLeft(lines[i], " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		for continues(line) && i+1 < len(lines) {
			i++
			line = line[:len(line)-1] + strings.TrimLeft(lines[i], " \t\f")
		}
		end := 0
		for ; end < len(line) && strings.IndexByte("=: \t\f", line[end]) < 0; end++ {
			if line[end] == '\\' {
				end++
			}
		}
		end = min(end, len(line))
		value := strings.TrimLeft(line[end:], " \t\f")
		if value != "" && (value[0] == '=' || value[0] == ':') {
			value = strings.TrimLeft(value[1:], " \t\f")
		}
		properties[unescaped(line[:end])] = unescaped(value)
	}
	return properties
}

// continues reports whether a line ends with a backslash that is not escaped itself.
func continues(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

func unescaped(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out []byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' || i+1 == len(s) {
			if c != '\\' {
				out = append(out, c)
			}
			continue
		}
		i++
		p := parser{s: s, at: i}
		if r, err := p.escape(); s[i] == 'u' && err == nil {
			out = appendUnit(out, r)
			i = p.at - 1
		} else if at := strings.IndexByte("tnrf", s[i]); at >= 0 {
			out = append(out, "\t\n\r\f"[at])
		} else {
			out = append(out, s[i])
		}
	}
	return string(out)
}
