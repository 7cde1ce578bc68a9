// Package debezium runs Debezium's connector for PostgreSQL with its outbox event router in a standalone worker of Kafka
// Connect, from the published jars.
package debezium

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/postrider/postrider/internal/testenv/kafkajars"
)

// Version is that of the connector, as pom.xml has it.
const Version = "3.3.1.Final"

//go:embed pom.xml
var pom []byte

// Connector says what to capture and where to send it.
type Connector struct {
	// Name is the connector's, the slot's and the topic prefix's.
	Name string
	// Database is a URL, Brokers an address.
	Database, Brokers string
	// Publication and Table name the captured table: public.TABLE of the outbox convention, whose aggregatetype is the
	// topic.
	Publication, Table string
	// Tuned has larger batches and queues, no wait between polls, and a producer that sends large requests. Otherwise
	// all that can be left to a default is.
	Tuned bool
	// Light runs it in a small Java machine that starts fast, for tests.
	Light bool
	// Settings are further lines of the connector's configuration, and Worker of the worker's.
	Settings, Worker []string
}

// Start runs the connector. Its files are in the folder dir; the caller stops the program.
func Start(ctx context.Context, c Connector, dir string) (*kafkajars.Program, error) {
	classpath, err := kafkajars.Classpath(ctx, pom, kafkajars.DefaultVersion, nil)
	if err != nil {
		return nil, err
	}
	connector, err := c.connector()
	if err != nil {
		return nil, err
	}
	files := map[string][]string{"worker.properties": append(c.worker(dir), c.Worker...), "connector.properties": append(connector, c.Settings...)}
	for name, lines := range files {
		// The password of the database is in one of them.
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			return nil, fmt.Errorf("configure Kafka Connect: %w", err)
		}
	}
	machine := jvm()
	if c.Light {
		machine = []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}
	}
	return kafkajars.StartProgram(ctx, classpath, append(machine,
		"org.apache.kafka.connect.cli.ConnectStandalone", filepath.Join(dir, "worker.properties"), filepath.Join(dir, "connector.properties")), dir, nil)
}

// jvm is the Java machine as connect-standalone.sh of the distribution starts it, in place of what suits short tests.
func jvm() []string {
	return []string{"-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4", "-Xms256m", "-Xmx2g",
		"-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}
}

// worker is the configuration of the worker. Keys and payloads are texts and stay so.
func (c Connector) worker(dir string) []string {
	return []string{
		"bootstrap.servers=" + c.Brokers, "listeners=http://127.0.0.1:0", "plugin.discovery=only_scan",
		"key.converter=org.apache.kafka.connect.storage.StringConverter",
		"value.converter=org.apache.kafka.connect.storage.StringConverter",
		"header.converter=org.apache.kafka.connect.storage.StringConverter",
		"connector.client.config.override.policy=All",
		"offset.storage.file.filename=" + filepath.Join(dir, "offsets"),
	}
}

// connector is the configuration of the connector with its router.
func (c Connector) connector() ([]string, error) {
	u, err := url.Parse(c.Database)
	if err != nil {
		return nil, fmt.Errorf("the database's URL: %w", err)
	}
	password, _ := u.User.Password()
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	lines := []string{
		"name=" + c.Name, "connector.class=io.debezium.connector.postgresql.PostgresConnector", "tasks.max=1",
		"database.hostname=" + u.Hostname(), "database.port=" + port,
		"database.user=" + strings.ReplaceAll(u.User.Username(), `\`, `\\`), "database.password=" + strings.ReplaceAll(password, `\`, `\\`),
		"database.dbname=" + strings.TrimPrefix(u.Path, "/"),
		"topic.prefix=" + c.Name, "plugin.name=pgoutput", "slot.name=" + c.Name,
		"publication.name=" + c.Publication, "publication.autocreate.mode=disabled",
		"table.include.list=public." + c.Table, "snapshot.mode=no_data", "tombstones.on.delete=false",
		"transforms=outbox", "transforms.outbox.type=io.debezium.transforms.outbox.EventRouter",
		"transforms.outbox.route.topic.replacement=${routedByValue}",
	}
	if c.Tuned {
		lines = append(lines, "max.batch.size=8192", "max.queue.size=32768", "poll.interval.ms=5", "skipped.operations=u,d,t",
			"producer.override.linger.ms=5", "producer.override.batch.size=524288", "producer.override.buffer.memory=134217728")
	}
	return lines, nil
}
