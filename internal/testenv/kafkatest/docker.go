package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/postrider/postrider/internal/testenv/kafkajars"
)

const (
	// dockerRepository holds the images of the Apache Kafka project.
	dockerRepository = "apache/kafka"
	// dockerPort is the port inside the container that clients connect to.
	dockerPort = "9092/tcp"
	// dockerTimeout bounds the start of the container and the first download of
	// its image; the other kinds of broker still have their time after it.
	dockerTimeout = 3 * time.Minute
)

// startDocker runs Kafka in a container. A daemon that does not answer, an
// image that cannot be had and a container that does not start all count as
// not available: none of them says anything about the code under test.
func startDocker(ctx context.Context) (*Broker, func() error, error) {
	ctx, cancel := context.WithTimeout(ctx, dockerTimeout)
	defer cancel()
	if err := pingDocker(ctx); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNoDocker, err)
	}
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNoDocker, err)
	}
	defer func() { _ = provider.Close() }()
	host, err := provider.DaemonHost(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNoDocker, err)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	// Kafka must know the address to give to its clients before it starts, so
	// the port cannot be left to Docker.
	port, err := kafkajars.FreePort()
	if err != nil {
		return nil, nil, err
	}
	image := dockerRepository + ":" + kafkaVersion()
	ctr, err := runContainer(ctx, image, host, port)
	stop := func() error { return testcontainers.TerminateContainer(ctr) }
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%w: container of %s: %w%s", errNoDocker, image, err, containerLog(ctr)), stop())
	}
	b := &Broker{
		Kind:    KindDocker,
		Version: kafkaVersion(),
		Addrs:   []string{net.JoinHostPort(host, strconv.Itoa(port))},
		detail:  "Docker, image " + image,
	}
	if err := b.probe(ctx); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%w: its Kafka does not answer at %s: %w%s", errNoDocker, b.Addrs[0], err, containerLog(ctr)), stop())
	}
	return b, stop, nil
}

func runContainer(ctx context.Context, image, host string, port int) (*testcontainers.DockerContainer, error) {
	bind := netip.IPv4Unspecified()
	if host == "127.0.0.1" {
		bind = netip.MustParseAddr(host)
	}
	return testcontainers.Run(ctx, image,
		testcontainers.WithEnv(containerEnv(host, port)),
		testcontainers.WithExposedPorts(dockerPort),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
			c.PortBindings = network.PortMap{
				network.MustParsePort(dockerPort): {{HostIP: bind, HostPort: strconv.Itoa(port)}},
			}
		}),
		testcontainers.WithWaitStrategyAndDeadline(dockerTimeout, wait.ForLog("Kafka Server started")),
	)
}

// containerEnv is the broker's configuration in the form that the image takes.
// The broker talks to itself too, to its transaction and share coordinators,
// and from inside the container it cannot reach the address that its clients
// use: hence a listener of its own.
func containerEnv(host string, port int) map[string]string {
	settings := kafkajars.Defaults()
	maps.Copy(settings, map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"controller.quorum.voters":       "1@localhost:9093",
		"controller.listener.names":      "CONTROLLER",
		"inter.broker.listener.name":     "INTERNAL",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"listeners":                      "PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093,INTERNAL://localhost:9094",
		"advertised.listeners":           fmt.Sprintf("PLAINTEXT://%s,INTERNAL://localhost:9094", net.JoinHostPort(host, strconv.Itoa(port))),
	})
	env := make(map[string]string, len(settings))
	for k, v := range settings {
		env["KAFKA_"+strings.ToUpper(strings.ReplaceAll(k, ".", "_"))] = v
	}
	return env
}

// containerLog returns the end of the container's output, for an error.
func containerLog(ctr *testcontainers.DockerContainer) string {
	if ctr == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	logs, err := ctr.Logs(ctx)
	if err != nil {
		return ""
	}
	defer func() { _ = logs.Close() }()
	out, _ := io.ReadAll(logs)
	const tail = 4 << 10
	return "\nend of its log:\n" + strings.TrimSpace(string(out[max(0, len(out)-tail):]))
}
