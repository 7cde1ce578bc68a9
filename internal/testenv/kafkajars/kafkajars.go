// Package kafkajars runs a real Apache Kafka broker as a child process, from
// the official jars that Maven resolves, without Docker and without an
// installed Kafka. It is made for tests: one KRaft node (broker and controller
// in one process) on loopback, that can be stopped, killed, paused and
// restarted on the same address and data.
//
// It needs Java 17 or newer and, until the jars have been resolved once, mvn.
// On Linux the broker dies with the process that started it, however that
// process ends; elsewhere a crash of the starter leaves the broker running.
package kafkajars

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// DefaultVersion is the Apache Kafka version that runs unless
// [Options.Version] names another one.
const DefaultVersion = "4.1.0"

// ErrUnavailable is wrapped by errors of [Start] that say that this machine
// has not got what a broker from jars needs: no Java 17, no mvn, or no way for
// Maven to resolve the jars. Any other error means that the broker itself did
// not start.
var ErrUnavailable = errors.New("kafka from jars is not available on this machine")

// Options says how to run a broker. The zero value is a broker on a free port
// with its data in a temporary folder.
type Options struct {
	// Dir holds the broker's configuration and data. A folder that a broker
	// used before keeps its topics, records and offsets. Empty means a new
	// temporary folder, which Close removes. Defaults to empty.
	Dir string

	// Port is the port on 127.0.0.1 that clients connect to. 0 takes a free
	// one below the kernel's ephemeral range, so that no outgoing
	// connection takes it while the broker is down between Kill and Restart.
	// Defaults to 0.
	Port int

	// Heap is the Java heap in the syntax of -Xmx. Defaults to "384m".
	Heap string

	// Log receives the broker's output, of every run. The last lines are kept
	// for error messages in any case. Defaults to nil, which discards it.
	Log io.Writer

	// Config are broker settings (server.properties) added to the
	// settings of [Defaults], or in their place. Addresses, roles and folders are this
	// package's own and refused. Defaults to none.
	Config map[string]string

	// Proxies are ports on 127.0.0.1 where the caller's proxies stand in front
	// of the broker. For each the broker has one more listener, whose clients
	// are told the proxy's port as the broker's own, so that they never get
	// round it; [Broker.Behind] is where that proxy connects to. Defaults to
	// none.
	Proxies []int

	// Secure is the protocol of one more listener, SSL, SASL_SSL or SASL_PLAINTEXT,
	// named SECURE: Config has its settings, for example
	// listener.name.secure.ssl.keystore.location. Defaults to no such listener.
	Secure string

	// Version is the Apache Kafka version. Defaults to [DefaultVersion].
	Version string

	// JVMArgs are further arguments for java, for instance
	// -XX:TieredStopAtLevel=1, which spends less CPU in short runs and has
	// less throughput in long ones. Defaults to none.
	JVMArgs []string
}

// Broker is one broker, running or not. Its methods are safe for concurrent
// use; methods that start or end the process run one at a time.
type Broker struct {
	opts           Options
	dir            string
	release        func() // gives up a temporary dir; nil when dir is the caller's
	port           int
	controllerPort int
	behind         []int // ports of the listeners behind Options.Proxies
	secure         int   // port of the listener of Options.Secure
	java           java
	classpath      string

	mu   sync.Mutex // held by the call that starts or ends the process
	proc *process   // nil until the first start
}

// Start runs a broker and returns when it answers. ctx bounds the start only,
// the resolving of the jars included; it does not end a broker that runs. A
// broker that did not start is described by the end of its own log.
//
// The caller ends it with [Broker.Close].
func Start(ctx context.Context, opts Options) (*Broker, error) {
	if opts.Version == "" {
		opts.Version = DefaultVersion
	}
	if opts.Heap == "" {
		opts.Heap = "384m"
	}
	if err := checkConfig(opts.Config); err != nil {
		return nil, err
	}
	j, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	cp, err := classpath(ctx, opts.Version, opts.Log)
	if err != nil {
		return nil, err
	}
	b := &Broker{opts: opts, java: j, classpath: cp}
	if err := b.makeDir(); err != nil {
		return nil, err
	}
	if err := b.firstStart(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// firstStart starts the broker, on other ports when another process took a
// free one between its choice and the broker's bind.
func (b *Broker) firstStart(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for attempt := 1; ; attempt++ {
		if err := b.choosePorts(); err != nil {
			return err
		}
		err := b.start(ctx)
		if err == nil || attempt == 3 || !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
}

func (b *Broker) choosePorts() (err error) {
	if b.port = b.opts.Port; b.port == 0 {
		if b.port, err = FreePort(); err != nil {
			return err
		}
	}
	taken := []int{b.port}
	for len(taken) < len(b.opts.Proxies)+3 {
		port, err := FreePort()
		if err != nil {
			return err
		}
		if !slices.Contains(taken, port) {
			taken = append(taken, port)
		}
	}
	b.controllerPort, b.secure, b.behind = taken[1], taken[2], taken[3:]
	return nil
}

// Restart starts the broker again on the same address, data and settings. A
// broker that runs is stopped first, as by [Broker.Stop]; one that was killed
// answers about [Defaults]' broker.session.timeout.ms later than one that was
// stopped, because the controller waits for the dead broker's session to end.
func (b *Broker) Restart(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := os.Stat(b.dir); err != nil {
		return fmt.Errorf("restart the Kafka broker at %s: its data is gone (was it closed?): %w", b.Addr(), err)
	}
	if err := b.stop(ctx); err != nil {
		return err
	}
	return b.start(ctx)
}

// Stop ends the broker in order (SIGTERM) and waits for it; when ctx ends
// first, the broker is killed and an error says so. The data stays, Restart
// works. Stopping a broker that does not run does nothing.
func (b *Broker) Stop(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stop(ctx)
}

func (b *Broker) stop(ctx context.Context) error {
	if b.proc == nil || b.proc.exited() {
		return nil
	}
	if err := b.proc.terminate(ctx); err != nil {
		return fmt.Errorf("stop the Kafka broker at %s: %w", b.Addr(), err)
	}
	return nil
}

// Kill ends the broker at once (SIGKILL), as a crash does, and returns when the
// process is gone. The data stays, Restart works. Killing a broker that does
// not run does nothing.
func (b *Broker) Kill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kill()
}

func (b *Broker) kill() error {
	if b.proc == nil {
		return nil
	}
	if err := b.proc.kill(); err != nil {
		return fmt.Errorf("kill the Kafka broker at %s: %w", b.Addr(), err)
	}
	return nil
}

// Pause freezes the broker (SIGSTOP): connections stay open and nothing
// answers, as on a machine that hangs. On Linux the last thread has stopped
// when it returns. A pause longer than broker.session.timeout.ms makes the
// broker lose its registration for a moment after Resume, as a real one does.
func (b *Broker) Pause() error {
	return b.live("pause", func(p *process) error {
		if err := p.signal(pauseSignal); err != nil {
			return err
		}
		return waitStopped(p.pid)
	})
}

// Resume continues a broker that [Broker.Pause] froze (SIGCONT).
func (b *Broker) Resume() error {
	return b.live("resume", func(p *process) error { return p.signal(resumeSignal) })
}

// live calls do with the running process.
func (b *Broker) live(verb string, do func(*process) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proc == nil || b.proc.exited() {
		return fmt.Errorf("%s the Kafka broker at %s: it does not run", verb, b.Addr())
	}
	if err := do(b.proc); err != nil {
		return fmt.Errorf("%s the Kafka broker at %s: %w", verb, b.Addr(), err)
	}
	return nil
}

// Close kills the broker if it still runs and removes its folder if Start made
// it. Call [Broker.Stop] first where the data must be complete. Closing twice
// does nothing.
func (b *Broker) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.kill()
	if b.release != nil {
		err = errors.Join(err, os.RemoveAll(b.dir))
		b.release()
	}
	return err
}

// Addr is the address that clients connect to, host:port. It stays the same
// through Stop, Kill and Restart.
func (b *Broker) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// Behind is the address of the listener that stands behind the n-th of
// [Options.Proxies]: where that proxy connects to. It stays the same as Addr does.
func (b *Broker) Behind(n int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.behind[n]))
}

// SecureAddr is the address of the listener of [Options.Secure]. It stays the same as Addr does.
func (b *Broker) SecureAddr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.secure)) }

// Version is the Apache Kafka version, for example "4.1.0".
func (b *Broker) Version() string { return b.opts.Version }

// JavaVersion is the major version of the Java that runs the broker, for example 17.
func (b *Broker) JavaVersion() int { return b.java.major }

// PID is the process id of the running broker, 0 when it does not run.
func (b *Broker) PID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proc == nil || b.proc.exited() {
		return 0
	}
	return b.proc.pid
}
