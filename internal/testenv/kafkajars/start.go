package kafkajars

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// quietLoggers are told to log warnings only: they print the whole
// configuration, a thousand lines, at every start.
var quietLoggers = []string{
	"org.apache.kafka.common.config.AbstractConfig",
	"org.apache.kafka.common.metrics.Metrics",
	"org.apache.kafka.common.utils.AppInfoParser",
}

// shortRun spends less processor on compiling what a run of seconds hardly uses.
const shortRun = "-XX:TieredStopAtLevel=1"

// start writes the configuration, formats an empty data folder and runs the
// broker until it answers. The caller holds b.mu.
func (b *Broker) start(ctx context.Context) error {
	for _, port := range append([]int{b.port, b.controllerPort, b.secure}, b.behind...) {
		if err := checkFree(port); err != nil {
			return fmt.Errorf("start a Kafka broker: %w", err)
		}
	}
	properties := filepath.Join(b.dir, "server.properties")
	if err := os.WriteFile(properties, serverProperties(b.settings()), 0o644); err != nil {
		return fmt.Errorf("write the Kafka broker's configuration: %w", err)
	}
	if err := b.format(ctx, properties); err != nil {
		return err
	}
	proc, err := startProcess(b.java.path, b.javaArgs("kafka.Kafka", properties), b.dir, b.opts.Log)
	if err != nil {
		return fmt.Errorf("start the Kafka broker with %s: %w", b.java.path, err)
	}
	b.proc = proc
	if err := b.waitReady(ctx); err != nil {
		return b.startError(errors.Join(err, proc.kill()))
	}
	return nil
}

func (b *Broker) javaArgs(args ...string) []string {
	all := []string{
		"-Xmx" + b.opts.Heap, "-Xshare:auto", "-XX:+UseSerialGC", "-Djava.awt.headless=true",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.showShortLogName=true",
	}
	for _, name := range quietLoggers {
		all = append(all, "-Dorg.slf4j.simpleLogger.log."+name+"=warn")
	}
	all = append(all, b.opts.JVMArgs...)
	all = append(all, "-cp", b.classpath)
	return append(all, args...)
}

// format gives an empty data folder a cluster id, as KRaft requires before the
// first start. A folder that has one is left alone.
func (b *Broker) format(ctx context.Context, properties string) error {
	if _, err := os.Stat(filepath.Join(b.dataDir(), "meta.properties")); err == nil {
		return nil
	}
	args := b.javaArgs(shortRun, "kafka.tools.StorageTool", "format", "--cluster-id", newClusterID(), "--config", properties)
	cmd := exec.CommandContext(ctx, b.java.path, args...)
	cmd.Dir = b.dir
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("format the Kafka broker's folder %s: %w\n%s", b.dir, err, lastLines(string(out)))
	}
	return nil
}

// clusterID returns the id that format wrote into the data folder.
func (b *Broker) clusterID() (string, error) {
	file := filepath.Join(b.dataDir(), "meta.properties")
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the Kafka broker's cluster id: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster.id="); ok {
			return id, nil
		}
	}
	return "", fmt.Errorf("no cluster.id in %s: the folder is not a Kafka broker's", file)
}

// newClusterID returns a random Kafka Uuid: sixteen bytes in URL-safe base64. Like
// Kafka's own it never starts with a dash, which a command line takes for an
// option.
func newClusterID() string {
	for {
		var id [16]byte
		_, _ = rand.Read(id[:]) // never fails, see crypto/rand
		if s := base64.RawURLEncoding.EncodeToString(id[:]); s[0] != '-' {
			return s
		}
	}
}

// What the broker logs when it gives up, some fifteen seconds before its
// process ends, and the JVM's words for a port that is taken. No exit code says
// as much.
const (
	logGivenUp   = "Exiting Kafka due to fatal exception"
	logPortTaken = "Address already in use"
)

// startError adds what the broker itself said, and makes a port that is taken
// recognisable as syscall.EADDRINUSE.
func (b *Broker) startError(err error) error {
	log := b.proc.tail.String()
	if strings.Contains(log, logPortTaken) {
		err = errors.Join(syscall.EADDRINUSE, err)
	}
	return fmt.Errorf("the Kafka %s broker at %s did not start: %w\nits log says:\n%s",
		b.opts.Version, b.Addr(), err, reason(log))
}

// waitReady returns when this very broker (not another one on its address) is
// registered with its controller and answers for it, which is when topics can
// be created and written.
func (b *Broker) waitReady(ctx context.Context) error {
	id, err := b.clusterID()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()))
	if err != nil {
		return fmt.Errorf("make a client for %s: %w", b.Addr(), err)
	}
	defer client.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		last := ping(ctx, client, id)
		if last == nil {
			return nil
		}
		if strings.Contains(b.proc.tail.String(), logGivenUp) {
			return errors.New("it gave up")
		}
		select {
		case <-b.proc.done:
			return errors.New("its process ended")
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting for an answer; last attempt: %w", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

func ping(ctx context.Context, client *kgo.Client, clusterID string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	// A seed broker's Request does not retry by itself, so the loop above sees
	// each refusal and the end of the process at once.
	resp, err := client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return err
	}
	meta := resp.(*kmsg.MetadataResponse)
	if len(meta.Brokers) == 0 {
		return errors.New("the broker is not registered with its controller yet")
	}
	if id := meta.ClusterID; id == nil || *id != clusterID {
		return errors.New("another Kafka cluster answers at this address")
	}
	return nil
}
