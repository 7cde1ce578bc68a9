package dlq

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// TopicPatterns choose dead-letter topics by their names. The zero value and nil choose none.
type TopicPatterns struct{ patterns []*regexp.Regexp }

// MaxPatternBytes is the length of the longest pattern.
const MaxPatternBytes = 1000

// ordinary are names that no topic of dead letters has; a pattern that fits both fits about everything.
var ordinary = []string{"orders", "x7-q.z_k"}

// NewTopicPatterns compiles patterns: regular expressions in the syntax of Go (RE2) that must fit a whole name, for
// example ".*[-.](dlq|dlt|DLT)". One that would take about every topic for dead letters is an error.
func NewTopicPatterns(patterns []string) (*TopicPatterns, error) {
	all := &TopicPatterns{}
	for _, p := range patterns {
		compiled, err := compileTopicPattern(p)
		if err != nil {
			return nil, fmt.Errorf("pattern %.200q of dead-letter topics: %w", p, err)
		}
		all.patterns = append(all.patterns, compiled)
	}
	return all, nil
}

func compileTopicPattern(p string) (*regexp.Regexp, error) {
	switch {
	case p == "":
		return nil, errors.New("it must not be empty")
	case len(p) > MaxPatternBytes:
		return nil, fmt.Errorf("it is longer than %d bytes", MaxPatternBytes)
	}
	if _, err := regexp.Compile(p); err != nil { // alone, so that the error is about what was written
		return nil, fmt.Errorf(`it must be a regular expression, such as .*[-.](dlq|dlt|DLT): %w`, err)
	}
	compiled, err := regexp.Compile(`\A(?:` + p + `)\z`)
	if err != nil {
		return nil, fmt.Errorf(`it must be a regular expression, such as .*[-.](dlq|dlt|DLT): %w`, err)
	}
	for _, name := range ordinary {
		if !compiled.MatchString(name) {
			return compiled, nil
		}
	}
	return nil, errors.New("it fits about every topic, so every record would be taken for a dead letter; say what only dead-letter topics have in their names, such as .*[-.](dlq|dlt|DLT)")
}

// Any reports whether there are patterns.
func (p *TopicPatterns) Any() bool { return p != nil && len(p.patterns) > 0 }

// retryTier is how the names of retry topics end: <topic>.<group>.retry.<delay>.
var retryTier = regexp.MustCompile(`\.retry\.[^.]+\z`)

// Fits reports whether a pattern fits the name of a topic. Kafka's own topics and retry topics of consumers are never
// chosen: records in a retry topic are still on their way.
func (p *TopicPatterns) Fits(topic string) bool {
	if !p.Any() || strings.HasPrefix(topic, "__") || retryTier.MatchString(topic) {
		return false
	}
	for _, one := range p.patterns {
		if one.MatchString(topic) {
			return true
		}
	}
	return false
}
