package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/postrider/postrider/internal/testenv/kafkajars"
)

// stopTimeout bounds the orderly end of a broker; then it is killed.
const stopTimeout = 20 * time.Second

// errNoDocker is wrapped when no container can be run here.
var errNoDocker = errors.New("docker is not available")

// unavailable reports whether err says that this machine lacks what a kind of
// broker needs. The next kind is tried then, unless the environment demands
// this one.
func unavailable(err error) bool {
	return errors.Is(err, errNoDocker) || errors.Is(err, kafkajars.ErrUnavailable)
}

// starter starts a broker of one kind.
type starter func(ctx context.Context) (b *Broker, stop func() error, err error)

var starters = map[Kind]starter{
	KindEnv:    startEnv,
	KindDocker: startDocker,
	KindJars:   startJars,
}

// Start starts the real broker without a test around it; [Real] is for tests.
// The caller calls stop when it is done, once. See the package comment for the
// choice; the broker is a kfake cluster when nothing real is available.
func Start(ctx context.Context) (b *Broker, stop func() error, err error) {
	return choose(ctx, Kind(os.Getenv(EnvKind)), os.Getenv(EnvBrokers) != "", starters)
}

// choose starts the demanded kind, or the first one available. An address in
// the environment is a demand too: tests must not go elsewhere without a word
// when it does not answer.
func choose(ctx context.Context, demanded Kind, addressGiven bool, starters map[Kind]starter) (*Broker, func() error, error) {
	if demanded == "" && addressGiven {
		demanded = KindEnv
	}
	switch {
	case demanded == KindKfake:
		return kfakeInstead(EnvKind + "=kfake")
	case demanded != "" && starters[demanded] == nil:
		return nil, nil, fmt.Errorf("%s=%q is none of env, docker, jars, kfake", EnvKind, demanded)
	case demanded != "":
		b, stop, err := starters[demanded](ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("broker of kind %s, which the environment demands: %w", demanded, err)
		}
		return b, stop, nil
	}
	var reasons []string
	for _, kind := range []Kind{KindDocker, KindJars} {
		b, stop, err := starters[kind](ctx)
		if err == nil {
			return b, stop, nil
		}
		if !unavailable(err) {
			return nil, nil, err
		}
		reason, _, _ := strings.Cut(err.Error(), "\n")
		reasons = append(reasons, reason)
	}
	return kfakeInstead("no real broker: " + strings.Join(reasons, "; "))
}

func kfakeInstead(why string) (*Broker, func() error, error) {
	b, err := startKfake(why)
	if err != nil {
		return nil, nil, err
	}
	return b, func() error { b.Cluster.Close(); return nil }, nil
}

// startEnv connects to the broker that the environment names.
func startEnv(ctx context.Context) (*Broker, func() error, error) {
	value := os.Getenv(EnvBrokers)
	addrs := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	if len(addrs) == 0 {
		return nil, nil, fmt.Errorf("%s is empty: give host:port, several with commas", EnvBrokers)
	}
	b := &Broker{Kind: KindEnv, Addrs: addrs, detail: EnvBrokers + "=" + value}
	if err := b.probe(ctx); err != nil {
		return nil, nil, fmt.Errorf("no Kafka broker answers at %s=%s: %w", EnvBrokers, value, err)
	}
	return b, func() error { return nil }, nil
}

// probe asks the broker what it is, and takes its version from the answer when
// it is not known yet.
func (b *Broker) probe(ctx context.Context) error {
	client, err := b.newClient()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	versions, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		return err
	}
	for _, v := range versions.Sorted() {
		if v.Err != nil {
			return fmt.Errorf("broker %d: %w", v.NodeID, v.Err)
		}
		if b.Version == "" {
			b.Version = strings.TrimPrefix(v.VersionGuess(), "v")
		}
	}
	return nil
}

// startJars runs Kafka from the official jars.
func startJars(ctx context.Context) (*Broker, func() error, error) {
	// Test processes are short: the first compiler stage is all that pays off.
	k, err := kafkajars.Start(ctx, kafkajars.Options{Version: kafkaVersion(), JVMArgs: []string{"-XX:TieredStopAtLevel=1"}})
	if err != nil {
		return nil, nil, err
	}
	b := &Broker{
		Kind:    KindJars,
		Version: k.Version(),
		Addrs:   []string{k.Addr()},
		detail:  fmt.Sprintf("local jars, Java %d", k.JavaVersion()),
	}
	stop := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		return errors.Join(k.Stop(ctx), k.Close())
	}
	return b, stop, nil
}
