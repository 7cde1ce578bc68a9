package kafkajars

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Defaults returns the settings, beside addresses and folders, of a
// single-node Kafka broker made for tests: internal topics with one partition
// and one replica, no waiting where a cluster waits for its other members,
// little memory, and topics that exist only when they were created.
func Defaults() map[string]string {
	return map[string]string{
		"auto.create.topics.enable": "false",
		"num.partitions":            "1",

		"default.replication.factor":                       "1",
		"offsets.topic.replication.factor":                 "1",
		"offsets.topic.num.partitions":                     "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"share.coordinator.state.topic.num.partitions":     "1",

		// A group starts with its first member instead of waiting 3 s for more.
		"group.initial.rebalance.delay.ms": "0",

		// After a kill the controller refuses the new process until the dead
		// one's session has ended: 9 s by default, most of a restart.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "250",

		// The cleaner's 128 MB buffer is a third of the heap, and index files
		// are 10 MB each before they hold anything.
		"log.cleaner.dedupe.buffer.size": "2097152",
		"log.index.size.max.bytes":       "1048576",

		// Files of a deleted topic stay for a minute otherwise.
		"log.segment.delete.delay.ms": "1000",
	}
}

// ownSettings are written by this package: a broker with others would not be
// found where Addr says, or would not start.
var ownSettings = []string{
	"advertised.listeners", "broker.id", "controller.listener.names", "controller.quorum.bootstrap.servers",
	"controller.quorum.voters", "listener.security.protocol.map", "listeners", "log.dir", "log.dirs",
	"metadata.log.dir", "node.id", "process.roles",
}

func checkConfig(config map[string]string) error {
	for _, k := range slices.Sorted(maps.Keys(config)) {
		if slices.Contains(ownSettings, k) {
			return fmt.Errorf("kafkajars: Options.Config must not set %s: addresses, roles and folders follow from the other options", k)
		}
		if strings.ContainsAny(k+config[k], "\r\n") {
			return fmt.Errorf("kafkajars: Options.Config %q: a setting is one line", k)
		}
	}
	return nil
}

func (b *Broker) dataDir() string { return filepath.Join(b.dir, "data") }

// settings returns the whole configuration of the broker.
func (b *Broker) settings() map[string]string {
	all := Defaults()
	maps.Copy(all, b.opts.Config)
	listeners := fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", b.port, b.controllerPort)
	advertised := fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", b.port)
	protocols := "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
	for i, port := range b.behind {
		listeners += fmt.Sprintf(",PROXIED%d://127.0.0.1:%d", i, port)
		advertised += fmt.Sprintf(",PROXIED%d://127.0.0.1:%d", i, b.opts.Proxies[i])
		protocols += fmt.Sprintf(",PROXIED%d:PLAINTEXT", i)
	}
	if b.opts.Secure != "" {
		secure := fmt.Sprintf(",SECURE://127.0.0.1:%d", b.secure)
		listeners, advertised, protocols = listeners+secure, advertised+secure, protocols+",SECURE:"+b.opts.Secure
	}
	maps.Copy(all, map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"controller.quorum.voters":       fmt.Sprintf("1@127.0.0.1:%d", b.controllerPort),
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": protocols,
		"listeners":                      listeners,
		"advertised.listeners":           advertised,
		"log.dirs":                       b.dataDir(),
	})
	return all
}

// serverProperties renders settings as a Java properties file, sorted.
func serverProperties(settings map[string]string) []byte {
	escape := strings.NewReplacer(`\`, `\\`)
	var out bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&out, "%s=%s\n", k, escape.Replace(settings[k]))
	}
	return out.Bytes()
}
