package config

import (
	"slices"
	"strings"
	"testing"
)

// TestCustomHeaders: the headers of home-made dead letters come from a block of the file, and mistakes are named.
func TestCustomHeaders(t *testing.T) {
	t.Parallel()
	c, err := Load(From{File: write(t, "collector:\n  headers:\n    topic: [x-topic, topic]\n    error: x-error\n")})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Collector.CustomHeaders(); !slices.Equal(got.Topic, []string{"x-topic", "topic"}) || !slices.Equal(got.Error, []string{"x-error"}) || got.Offset != nil {
		t.Errorf("%+v", got)
	}
	for file, want := range map[string]string{
		"collector: {headers: {offset: x-offset}}":           "name one of them",
		"collector: {headers: {topic: x, error: x}}":         "the header x is named for topic and for error",
		"collector: {headers: {topic: postrider-event-id}}":  "is Postrider's own",
		"collector: {headers: {topic: x, tipoc: y}}":         "tipoc",
		"collector: {headers_topic: x, headers: {topic: y}}": "headers_topic",
	} {
		if _, err := Load(From{File: write(t, file+"\n")}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}
