// Package check compares a Debezium connector with what Postrider would do in its place: its settings, the database that it
// reads, and the records that it wrote last. It changes nothing.
package check

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/debezium"
)

// Config says what to compare.
type Config struct {
	// Properties are the connector's, with the worker's converters where they are known. Required.
	Properties debezium.Properties
	// From is where they were read, for the command to go on with. Defaults to "FILE".
	From string
	// Settings are ours. Required.
	Settings config.Config
	// Database are connections to the database of the outbox table; nil leaves out what needs them. DatabaseError says why then.
	Database      *pgxpool.Pool
	DatabaseError error
	// Kafka returns a client of the brokers that the connector writes to; nil leaves out the comparison of records.
	Kafka func(...kgo.Opt) (*kgo.Client, error)
	// Table is the outbox table, SCHEMA.NAME; empty is the only one that table.include.list means and that has the columns.
	Table string
	// Topics are compared beside the topics of rows that are in the table.
	Topics []string
	// Last is how many records of each topic are compared. Defaults to 200.
	Last int
	// KeysLocked says that each writer takes a lock of the key before it inserts, so that the order of a key's inserts is that
	// of its commits. Defaults to false.
	KeysLocked bool
}

// Report is what the comparison found.
type Report struct {
	// Verdict is refused, differs or same: the worst of all.
	Verdict debezium.Verdict `json:"verdict"`
	// Connector is its name, Table the outbox table, empty where it was not found.
	Connector string `json:"connector"`
	Table     string `json:"table,omitempty"`
	// Settings are the connector's knobs.
	Settings []debezium.Knob `json:"settings"`
	// Database is about the table, the publication, the slot, rights and order.
	Database []debezium.Knob `json:"database"`
	// Records is the comparison of records.
	Records Records `json:"records"`
	// Rules are our settings in YAML that do what the connector does; empty where something is refused that they need.
	Rules string `json:"rules,omitempty"`
	// Next is the command to go on with.
	Next string `json:"next"`
}

// Check makes the comparison. An error says that the settings are no connector's that could be compared.
func Check(ctx context.Context, cfg Config) (Report, error) {
	c, err := cfg.Properties.Read()
	if err != nil {
		return Report{}, err
	}
	if cfg.Last == 0 {
		cfg.Last = 200
	}
	if cfg.From == "" {
		cfg.From = "FILE"
	}
	r := Report{Connector: c.Name, Settings: debezium.Judge(cfg.Properties, c, debezium.Ours{Compression: cfg.Settings.Kafka.Compression,
		MaxMessageBytes: cfg.Settings.Kafka.MaxMessageBytes, MayCreateTopics: cfg.Settings.Kafka.AllowTopicCreation})}
	e := &examination{Config: cfg, connector: c, routes: map[string]string{}}
	r.Database = e.database(ctx)
	r.Table = e.table.String()
	r.Records = e.compareRecords(ctx)
	r.Verdict = debezium.Worst(slices.Concat(r.Settings, r.Database, []debezium.Knob{{Verdict: r.Records.Verdict}}))
	r.Rules, r.Next = e.advice(r)
	return r, nil
}

// examination is one comparison, with what one part of it learnt for the parts behind it.
type examination struct {
	Config
	connector debezium.Connector
	table     table
	columns   []column
	topics    []string          // that rows are routed to, and Config.Topics
	routes    map[string]string // by topic, a value of the route's column that leads there
	findings  []debezium.Knob
}

// table is the outbox table.
type table struct {
	schema, name string
	oid          uint32
}

func (t table) String() string {
	if t.name == "" {
		return ""
	}
	return t.schema + "." + t.name
}

func (e *examination) add(name string, v debezium.Verdict, do, format string, args ...any) {
	e.findings = append(e.findings, debezium.Knob{Name: name, Verdict: v, Says: fmt.Sprintf(format, args...), Do: do})
}

func (e *examination) same(name, format string, args ...any) {
	e.add(name, debezium.Same, "", format, args...)
}

func (e *examination) differs(name, do, format string, args ...any) {
	e.add(name, debezium.Differs, do, format, args...)
}

func (e *examination) refuse(name, do, format string, args ...any) {
	e.add(name, debezium.Refused, do, format, args...)
}

func (e *examination) notLooked(name, format string, args ...any) {
	e.add(name, debezium.NotLookedAt, "", format, args...)
}
