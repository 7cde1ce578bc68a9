package packaging

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/postrider/postrider/cmd/internal/config"
)

// TestComposeMakesTheTopics: the script of compose.yaml in the image of Kafka makes each topic that Postrider needs. The
// script is run here, with a shell that shows what it would do.
func TestComposeMakesTheTopics(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Command []string `yaml:"command"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(root, "compose.yaml"))), &compose); err != nil {
		t.Fatal(err)
	}
	command := compose.Services["topics"].Command
	if len(command) != 3 {
		t.Fatalf("the service topics runs %q", command)
	}
	script := strings.ReplaceAll(command[2], "$$", "$") // as compose does
	script = strings.ReplaceAll(script, "/opt/kafka/bin/kafka-topics.sh", "echo made")
	out, err := exec.CommandContext(t.Context(), command[0], command[1], script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var made, want []string
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if i := slices.Index(words, "--topic"); words[0] != "made" || i < 0 || i+1 == len(words) || !slices.Contains(words, "--if-not-exists") {
			t.Errorf("it does %q", line)
		} else {
			made = append(made, words[i+1])
		}
	}
	for _, k := range config.Keys() {
		if slices.Contains([]string{"dlq.topic", "dlq.consumer_topic", "tasks.lifecycle_topic"}, k.String()) {
			want = append(want, k.Default)
		}
	}
	if slices.Sort(made); len(want) != 3 || !slices.Equal(made, slices.Sorted(slices.Values(want))) {
		t.Errorf("it makes %v, want %v", made, want)
	}
}
