package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// set parses text and puts it into the Config. The error describes the mistake and the allowed values, and never repeats
// the value: the caller decides whether the value may be shown.
func (k Key) set(c *Config, text string) error {
	field := k.fieldOf(reflect.ValueOf(c).Elem())
	text = strings.TrimSpace(text)
	switch field.Interface().(type) {
	case int:
		n, err := k.number(text)
		if err != nil {
			return err
		}
		field.SetInt(n)
	case time.Duration:
		n, err := k.number(text)
		if err != nil {
			return err
		}
		field.SetInt(n * int64(k.unit()))
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("it must be true, false, 1 or 0")
		}
		field.SetBool(b)
	case []string:
		var list []string
		if text == "" && !k.Required { // none
			field.Set(reflect.ValueOf(list))
			return nil
		}
		for item := range strings.SplitSeq(text, ",") {
			item = strings.TrimSpace(item)
			if err := k.check(item); err != nil {
				return err
			}
			list = append(list, item)
		}
		field.Set(reflect.ValueOf(list))
	default: // string, DatabaseURL and Secret
		if allowed := strings.Fields(k.tag.Get("oneof")); len(allowed) > 0 {
			text = strings.ToLower(text)
			if !slices.Contains(allowed, text) {
				return fmt.Errorf("it must be one of %s", strings.Join(allowed, ", "))
			}
		}
		if err := k.check(text); err != nil {
			return err
		}
		field.SetString(text)
	}
	return nil
}

// channelWord is what fits into the type of a CloudEvent between two dots.
var channelWord = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

func (k Key) number(text string) (int64, error) {
	low, high := k.bound("min"), k.bound("max")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("it must be a whole number from %d to %d", low, high)
	}
	return n, nil
}

func (k Key) bound(name string) int64 {
	n, err := strconv.ParseInt(k.tag.Get(name), 10, 64)
	if err != nil {
		panic("config: the tag " + name + " of " + k.String() + " is not a number")
	}
	return n
}

// check applies the rule that the key names for its text values.
func (k Key) check(text string) error {
	switch rule := k.tag.Get("check"); rule {
	case "":
		if text == "" {
			return errors.New("it must not be empty")
		}
		return nil
	case "optional": // any text, or none
		return nil
	case "database":
		return checkDatabaseURL(text)
	case "broker":
		return checkBroker(text)
	case "listen":
		if _, _, err := splitAddress(text, 0); err != nil {
			return fmt.Errorf("it must be host:port: %w", err)
		}
		return nil
	case "word":
		if !channelWord.MatchString(text) {
			return errors.New("it must be 1 to 100 letters, digits, underscores or hyphens")
		}
		return nil
	case "topic":
		if message.ValidTopic(text) != nil {
			return errors.New(`it must be a Kafka topic name: 1 to 249 letters, digits, dots, underscores and hyphens, and not "." or ".."`)
		}
		return nil
	case "topic_pattern":
		_, err := dlq.NewTopicPatterns([]string{text})
		return err
	case "endpoint":
		return checkEndpoint(text)
	case "headers":
		return checkHeaders(text)
	case "origin":
		return checkOrigin(text)
	case "url": // or none
		if text != "" && checkOrigin(text) != nil {
			return errors.New("it must be scheme, host and port as browsers show them: https://postrider.example.com, in small letters, without a path or /")
		}
		return nil
	case "redact_path":
		return checkRedaction(dlq.RedactionRules{Paths: []string{text}})
	case "redact_header":
		return checkRedaction(dlq.RedactionRules{Headers: []string{text}})
	default:
		panic("config: " + k.String() + " names the unknown rule " + rule)
	}
}
