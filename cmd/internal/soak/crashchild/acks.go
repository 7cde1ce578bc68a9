package main

import (
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// acks notes when each record of a topic was acknowledged: a line with its id, partition, offset and the time in
// microseconds. A line is written at once, so it outlives this process.
type acks struct {
	topic string
	file  *os.File
}

// openAcks appends to the file that the environment names, for the topic that it names; nil without one.
func openAcks() (*acks, error) {
	name := os.Getenv("CRASHCHILD_ACKS")
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return &acks{os.Getenv("CRASHCHILD_ACKS_TOPIC"), f}, err
}

// OnProduceRecordUnbuffered implements kgo.HookProduceRecordUnbuffered.
func (a *acks) OnProduceRecordUnbuffered(r *kgo.Record, err error) {
	if err == nil && r.Topic == a.topic && len(r.Value) >= idBytes {
		_, _ = fmt.Fprintf(a.file, "%s %d %d %d\n", r.Value[:idBytes], r.Partition, r.Offset, time.Now().UnixMicro())
	}
}

// idBytes is how much of a payload of the soak's is its id.
const idBytes = 36
