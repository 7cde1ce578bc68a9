// Package doctor asks PostgreSQL and Kafka for everything that Postrider depends on, and says what to do about
// each thing that is not as it should be. It changes nothing, but for records that Config.ProduceTopic asks for.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/migrations"
)

// Verdict is what a check came to.
type Verdict string

const (
	// OK: it is as it should be.
	OK Verdict = "ok"
	// Warning: Postrider works, and something will hurt or is not as safe as it could be.
	Warning Verdict = "warning"
	// Failed: Postrider does not work like that, or not all of it.
	Failed Verdict = "failed"
	// Skipped: it could not be looked at, because of something that is reported elsewhere or for want of rights.
	Skipped Verdict = "skipped"
)

// Finding is what one check found.
type Finding struct {
	// Group is what the check is about: database, schema, kafka, topics, http, clock, state or sources.
	Group string `json:"group"`
	// Check is the name of the check within its group. A check can have several findings.
	Check string `json:"check"`
	// Verdict is ok, warning, failed or skipped.
	Verdict Verdict `json:"verdict"`
	// Says is what was found.
	Says string `json:"says"`
	// Hint is what to do; empty where nothing is to be done.
	Hint string `json:"hint,omitempty"`
}

// Report is what an examination found.
type Report struct {
	// OK says that nothing failed.
	OK bool `json:"ok"`
	// Failed is how many findings are failures.
	Failed int `json:"failed"`
	// Warnings is how many are warnings.
	Warnings int `json:"warnings"`
	// Skipped is how many are of checks that could not be made.
	Skipped int `json:"skipped"`
	// ExaminedAt is when the examination began.
	ExaminedAt time.Time `json:"examined_at"`
	// Findings are what the checks found, in their order.
	Findings []Finding `json:"findings"`
}

// Config says what to examine, and how.
type Config struct {
	// Settings are the settings of the installation. Required.
	Settings config.Config
	// Database are connections to the database, any server of it. Nil if there are none; DatabaseError says why. Without both
	// the installation has no desk, and what is about its database is left out.
	Database      *pgxpool.Pool
	DatabaseError error
	// Kafka is a client of the brokers. Defaults to none, which fails.
	Kafka *kgo.Client
	// Pre leaves out what can only be looked at when the schema is there. Defaults to false.
	Pre bool
	// Role is the role whose rights the user of the database must have: relay, operator or writer. Defaults to
	// any: it is well if one of them is complete.
	Role string
	// Connections is how many database connections a process opens at most. Defaults to 0: it is not checked.
	Connections int

	// ProduceTopic is a topic that records are written to, which mean nothing, to time one. Defaults to "": none is written.
	ProduceTopic string

	limits limits // zero stands for defaultLimits
}

// limits are where findings begin to be worth a word.
type limits struct {
	oldTransaction, ancientTransaction time.Duration
	deadRows                           int64
	clockWarning, clockFailure         time.Duration
	lateWarning, lateFailure           time.Duration
	lateLetter                         time.Duration
	lag                                int64
	receipts                           int64
	check                              time.Duration
}

var defaultLimits = limits{
	oldTransaction: 5 * time.Minute, ancientTransaction: time.Hour,
	deadRows:     1_000_000,
	clockWarning: 2 * time.Second, clockFailure: time.Minute,
	lateWarning: time.Minute, lateFailure: 10 * time.Minute,
	lateLetter: 10 * time.Minute,
	lag:        10_000, receipts: 100_000,
	check: 15 * time.Second,
}

// result is a Finding before it is known whose.
type result struct {
	verdict    Verdict
	says, hint string
}

func well(format string, args ...any) []result {
	return []result{{OK, fmt.Sprintf(format, args...), ""}}
}

func warn(hint, format string, args ...any) []result {
	return []result{{Warning, fmt.Sprintf(format, args...), hint}}
}

func fail(hint, format string, args ...any) []result {
	return []result{{Failed, fmt.Sprintf(format, args...), hint}}
}

func skip(hint, format string, args ...any) []result {
	return []result{{Skipped, fmt.Sprintf(format, args...), hint}}
}

// need is what a check cannot do without.
type need int

const (
	nothing need = iota
	theServer
	theSchema
	theBrokers
	// theList is what the brokers say of the topics; theTopics is that, and one of them at least.
	theList
	theTopics
	theSchemaAndList
)

// check looks at one thing. An error says that it could not be looked at.
type check struct {
	group, name string
	needs       need
	run         func(context.Context, *patient) ([]result, error)
}

// partOf are the parts of the schema that checks are about, by the checks' names, where a database may lack the part. Then there
// is nothing to look at.
var partOf = map[string]migrations.Part{
	"pg_trgm": migrations.PartDesk, "collector": migrations.PartDesk, "operations": migrations.PartDesk, "investigations": migrations.PartDesk,
	"detector": migrations.PartTasks, "archiver": migrations.PartTasks,
}

// patient is the installation that is examined, with the facts that one check learnt for the checks after it.
type patient struct {
	Config
	admin *kadm.Client

	serverReached, brokersReached bool
	// schemaReady: the tables and functions of this binary are there.
	schemaReady bool
	// parts of the schema are there; all, as long as that is not known.
	parts []migrations.Part
	// leads: a relay leads the outbox.
	leads   bool
	brokers kadm.BrokerDetails
	// answering are the ids of the brokers that answer.
	answering []int32
	// listRead: topics is what the brokers say of them.
	listRead bool
	topics   topics
}

// checks are all that there are, in the order in which they are made and shown.
func checks() []check {
	return []check{
		{"database", "connection", nothing, checkConnection},
		{"database", "encryption", nothing, checkEncryption},
		{"database", "version", theServer, checkVersion},
		{"database", "service", theServer, checkService},
		{"database", "writes", theServer, checkWrites},
		{"database", "right to migrate", theServer, checkCreation},
		{"database", "pooler", theServer, checkPooler},
		{"database", "connections", theServer, checkConnections},
		{"database", "prepared transactions", theServer, checkPreparedTransactions},
		{"database", "oldest transaction", theServer, checkOldTransactions},
		{"database", "durability", theServer, checkDurability},
		{"database", "pg_trgm", theServer, checkTrigrams},
		{"schema", "version", theServer, checkSchema},
		{"schema", "rights", theSchema, checkRights},
		{"schema", "row-level security", theSchema, checkRowSecurity},
		{"schema", "sequence of events", theSchema, checkSequence},
		{"schema", "subscriptions", theSchema, checkSubscriptions},
		{"schema", "additions to the log", theSchema, checkAdditions},
		{"schema", "autovacuum", theSchema, checkAutovacuum},
		{"kafka", "brokers", nothing, checkBrokers},
		{"kafka", "idempotent producer", theBrokers, checkProducer},
		{"kafka", "message size", theBrokers, checkBrokerSize},
		{"kafka", "request size", theBrokers, checkRequestSize},
		{"topics", "list", theBrokers, findTopics},
		{"topics", "existence", theList, checkExistence},
		{"topics", "leaders", theTopics, checkLeaders},
		{"topics", "replication", theTopics, checkReplication},
		{"topics", "message size", theTopics, checkTopicSize},
		{"topics", "dead letters", theTopics, checkLetterTopics},
		{"topics", "kind of brokers", theList, checkKind},
		{"topics", "time of a produce", theList, checkProduceTime},
		{"topics", "rights", theList, checkTopicRights},
		{"topics", "writers of dead letters", theList, checkLetterWriters},
		{"http", "address", nothing, checkListening},
		{"console", "OpenID provider", nothing, checkProvider},
		{"clock", "database", theServer, checkClock},
		{"clock", "records", theTopics, checkRecordTimes},
		{"state", "leader", theSchema, checkLeader},
		{"state", "backlog", theSchema, checkBacklog},
		{"state", "holds", theSchema, checkHolds},
		{"state", "forwarded tables", theSchema, checkForwards},
		{"state", "retention", theSchema, checkRetention},
		{"state", "receipts", theSchema, checkReceipts},
		{"state", "collector", theSchemaAndList, checkCollector},
		{"state", "detector", theSchema, checkDetector},
		{"state", "archiver", theSchema, checkArchiver},
		{"state", "operations", theSchema, checkOperations},
		{"state", "investigations", theSchema, checkInvestigations},
	}
}

// Examine makes all checks, one after the other, each bounded in time, and says what they found.
func Examine(ctx context.Context, cfg Config) Report {
	if cfg.limits == (limits{}) {
		cfg.limits = defaultLimits
	}
	p := &patient{Config: cfg, parts: migrations.Parts()}
	if p.noDesk() {
		p.parts = []migrations.Part{migrations.PartOutbox}
	}
	if cfg.Kafka != nil {
		p.admin = kadm.NewClient(cfg.Kafka)
	}
	r := Report{ExaminedAt: time.Now().UTC()}
	for _, c := range checks() {
		for _, found := range p.make(ctx, c) {
			r.add(Finding{c.group, c.name, found.verdict, found.says, found.hint})
		}
	}
	r.OK = r.Failed == 0
	return r
}

// noDesk reports whether the installation has no database of its own beside the databases of its sources.
func (p *patient) noDesk() bool { return p.Database == nil && p.DatabaseError == nil }

func (r *Report) add(f Finding) {
	r.Findings = append(r.Findings, f)
	switch f.Verdict {
	case Failed:
		r.Failed++
	case Warning:
		r.Warnings++
	case Skipped:
		r.Skipped++
	}
}

// lacks reports whether the database was installed without a part; "" is none.
func (p *patient) lacks(part migrations.Part) bool {
	return part != "" && !slices.Contains(p.parts, part)
}

// make makes one check, if what it needs is there.
func (p *patient) make(ctx context.Context, c check) []result {
	schema := c.needs == theSchema || c.needs == theSchemaAndList
	list := c.needs == theList || c.needs == theTopics || c.needs == theSchemaAndList
	switch {
	case p.Pre && (schema || c.group == "schema"), p.lacks(partOf[c.name]):
		return nil
	case p.noDesk() && (schema || c.needs == theServer || c.group == "database"):
		return nil
	case (schema || c.needs == theServer) && !p.serverReached:
		return skip("", "the database cannot be asked")
	case schema && !p.schemaReady:
		return skip("", "the schema is not that of this binary")
	case (c.needs == theBrokers || list) && !p.brokersReached:
		return skip("", "no broker answers")
	case list && !p.listRead:
		return skip("", "the list of topics could not be read")
	case c.needs == theTopics && len(p.topics.there()) == 0:
		return skip("", "there is no topic to look at")
	}
	ctx, cancel := context.WithTimeout(ctx, p.limits.check)
	defer cancel()
	found, err := c.run(ctx, p)
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return found
	case errors.As(err, &refused) && refused.Code == "42501" && (p.Role == "relay" || p.Role == "writer"): // insufficient_privilege
		return append(found, skip("", "a login with postrider_%s alone may not look, and need not", p.Role)...)
	case errors.As(err, &refused) && refused.Code == "42501":
		return append(found, skip("ask as a user with the role postrider_operator: postrider migrate roles --apply, then grant postrider_operator to it",
			"the user of database.url may not look: %s", refused.Message)...)
	}
	return append(found, fail("", "this cannot be found out: %v", err)...)
}
