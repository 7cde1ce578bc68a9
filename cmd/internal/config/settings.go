package config

// Setting is a value with where it came from.
type Setting struct {
	// Name is section.name, or the name alone in a rule for topics.
	Name string
	// Value is a number, a bool, a text or a list of texts. Secrets are masked.
	Value any
	// Text is the value as the file would have it, lists separated by commas.
	Text string
	// Origin is "default", FILE:LINE, the environment variable, the flag, or "not set".
	Origin string
}

// Settings returns every key with its value and where it came from.
func (c Config) Settings() []Setting {
	settings := make([]Setting, 0, len(keys()))
	for _, k := range keys() {
		settings = append(settings, Setting{Name: k.String(), Value: k.value(c), Text: k.text(c), Origin: c.origin(k)})
	}
	return settings
}

// origin says where the value of a key came from.
func (c Config) origin(k Key) string {
	if origin, known := c.origins[k.String()]; known {
		return origin.text
	}
	return "not set"
}
