package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
)

// dockerImage is the PostgreSQL in Docker.
const dockerImage = "postgres:17-alpine"

// startDocker runs PostgreSQL in a container, which Docker removes even when this process is
// killed (testcontainers' reaper does).
func startDocker(ctx context.Context) (s *server, err error) {
	defer func() {
		// Without a Docker daemon testcontainers panics in some places.
		if reason := recover(); reason != nil {
			s, err = nil, fmt.Errorf("testcontainers: %v", reason)
		}
	}()
	const role, port = "postrider", "5432/tcp"
	password := rand.Text()
	command := []string{"postgres"}
	for name, value := range testSettings {
		command = append(command, "-c", name+"="+value)
	}
	container, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        dockerImage,
			ExposedPorts: []string{port},
			Env:          map[string]string{"POSTGRES_USER": role, "POSTGRES_PASSWORD": password, "POSTGRES_DB": "postgres"},
			Cmd:          command,
			// The image starts the server twice: to initialise, and to serve.
			WaitingFor: wait.ForAll(
				wait.ForLog("database system is ready to accept connections").WithOccurrence(2),
				wait.ForListeningPort(port),
			),
		},
		Started: true,
		Logger:  log.NewNoopLogger(),
	})
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(container))
	}
	endpoint, err := container.PortEndpoint(ctx, port, "")
	if err != nil {
		return nil, errors.Join(err, testcontainers.TerminateContainer(container))
	}
	address := url.URL{
		Scheme: "postgres", User: url.UserPassword(role, password), Host: endpoint,
		Path: "/postgres", RawQuery: "sslmode=disable",
	}
	return &server{
		url: address.String(), origin: "Docker " + dockerImage, kept: keptForTheRun,
		stop: func(ctx context.Context) error { return container.Terminate(ctx) },
	}, nil
}
