package debezium

import (
	"strconv"
	"strings"
)

// connectorRules are the settings of the connector itself.
var connectorRules = []rule{
	// What is captured.
	{name: "topic.prefix", always: true, judge: says("it begins the names of the topics of tables and heartbeats; events do not go there")},
	{name: "database.server.name", judge: says("as topic.prefix, before version 2")},
	{name: "table.include.list", always: true, judge: func(s subject, _ string) opinion {
		switch {
		case len(s.Tables) == 0:
			return differs("name the outbox in table.include.list; changes of other tables are not taken over", "the connector captures every table that its publication has")
		case len(s.Tables) > 1 || quantifier.MatchString(s.Tables[0]):
			return differs("let the connector go on with the other tables, and take the outbox out of this list and out of the publication at the cutover",
				"the connector captures more than one table, or an expression; only the outbox is taken over")
		}
		return same("the outbox alone")
	}},
	{name: "schema.include.list", judge: says("with table.include.list")},
	{name: "schema.exclude.list", judge: says("with table.include.list")},
	{name: "table.exclude.list", judge: says("with table.include.list")},
	{name: "column.include.list", judge: judgeColumns}, {name: "column.exclude.list", judge: judgeColumns},
	{name: "column.mask.*", judge: judgeColumns}, {name: "column.truncate.*", judge: judgeColumns},
	{name: "column.propagate.source.type", judge: says("it adds parameters to schemas of tables; JsonConverter prints them, if the column is the router's: compare the records")},
	{name: "datatype.propagate.source.type", judge: says("with column.propagate.source.type")},
	{name: "message.key.columns", judge: says("the router replaces the key")},
	{name: "skipped.operations", standard: "t", always: true, judge: func(_ subject, value string) opinion {
		for _, op := range list(value) {
			if strings.EqualFold(op, "c") {
				return refused("take c out: an outbox is nothing but inserts", "inserts are skipped, so no event is sent")
			}
		}
		return same("the router sends inserts alone")
	}},
	{name: "tombstones.on.delete", standard: "true", always: true, judge: says("the router drops deletes and what follows them; a delete of a row sends nothing here")},
	{name: "snapshot.mode", standard: "initial", always: true, judge: func(_ subject, value string) opinion {
		switch strings.ToLower(value) {
		case "never", "no_data", "schema_only":
			return same("rows from before the first start are not sent")
		case "initial", "exported":
			return same("the first start sent the rows that were there. Take-over begins behind the rows that are there, and sends none again; a connector that lost its offsets would send all again, so set no_data before a rollback")
		}
		return differs("set no_data before a rollback", "a start of the connector may send rows again that were sent before; here no start does")
	}},
	{name: "snapshot.*", judge: says("it is about snapshots, and there is none here")},
	{name: "incremental.snapshot.*", judge: says("it is about snapshots, and there is none here")},
	{name: "signal.*", judge: func(subject, string) opinion {
		return differs("end the use of signals for the outbox before the cutover", "signals start snapshots; nothing here obeys them")
	}},
	{name: "notification.*", judge: says("notifications have a topic of their own, which nothing here writes")},
	{name: "provide.transaction.metadata", judge: func(_ subject, value string) opinion {
		if strings.EqualFold(value, "true") {
			return refused("set it to false, if no consumer reads the topic of transactions", "the connector writes the begin and end of each transaction to a topic")
		}
		return same("no topic of transactions is written")
	}},

	// Logical replication: what a cutover needs.
	{name: "plugin.name", standard: "decoderbufs", always: true, judge: func(_ subject, value string) opinion {
		if !strings.EqualFold(value, "pgoutput") {
			return differs("move the connector to pgoutput first, or stop it, let it catch up and adopt the table while no writer runs",
				"without pgoutput there is no publication, and so no moment at which one transaction hands the table over")
		}
		return same("one transaction takes the table out of the publication and switches the trigger on")
	}},
	{name: "slot.name", standard: "debezium", always: true, judge: says("the cutover waits until the slot has confirmed; drop it when no rollback is wanted any more: it keeps the write-ahead log")},
	{name: "slot.drop.on.stop", judge: func(_ subject, value string) opinion {
		if strings.EqualFold(value, "true") {
			return differs("set it to false", "a connector that is stopped in a cutover loses its slot, and with it the events that it has not sent")
		}
		return same("the slot stays when the connector stops")
	}},
	{name: "slot.*", judge: says("it is about the slot")},
	{name: "publication.name", standard: "dbz_publication", always: true, judge: says("the cutover takes the table out of it")},
	{name: "publication.autocreate.mode", standard: "all_tables", always: true, judge: func(_ subject, value string) opinion {
		switch strings.ToLower(value) {
		case "disabled":
			return same("the connector leaves the publication as it is")
		case "filtered":
			return differs("set it to disabled before the cutover", "each start of the connector puts the tables of table.include.list into the publication: behind the cutover events would be sent twice")
		case "no_tables":
			return differs("set it to disabled before the cutover", "a start of the connector may make the publication anew")
		}
		return differs("set it to disabled before the cutover", "a start of the connector makes a publication FOR ALL TABLES where there is none")
	}},
	{name: "publish.via.partition.root", judge: says("with the publication")},
	{name: "replica.identity.autoset.values", judge: says("an outbox is inserted into; inserts need no replica identity")},
	{name: "heartbeat.interval.ms", standard: "0", always: true, judge: func(s subject, _ string) opinion {
		if !s.Heartbeats {
			return differs("set heartbeat.interval.ms to 1000 before the cutover",
				"without heartbeats the slot confirms when a captured table changes; behind the cutover the outbox does not, and the cutover would wait")
		}
		return same("the slot confirms while the outbox is quiet; heartbeats have a topic of their own, which nothing here writes")
	}},
	{name: "heartbeat.action.query", hidden: true, judge: says("with heartbeat.interval.ms")},
	{name: "heartbeat.topics.prefix", judge: says("with heartbeat.interval.ms")},
	{name: "topic.heartbeat.prefix", judge: says("with heartbeat.interval.ms")},
	{name: "status.update.interval.ms", judge: says("it is about the slot")},
	{name: "lsn.flush.mode", judge: judgeFlush}, {name: "flush.lsn.source", judge: judgeFlush},
	{name: "xmin.fetch.interval.ms", judge: says("it is about the slot")},

	// What the records are made of.
	{name: "extended.headers.enabled", standard: "true", always: true, judge: func(s subject, _ string) opinion {
		if s.ContextHeaders {
			return differs("set it to false at the connector, if no consumer reads these headers; the comparison of records leaves them out",
				"from version 3.2 on each record begins with headers %s*, which name the connector and its task; they are not sent here", ContextHeader)
		}
		return same("headers are id and the additional columns")
	}},
	{name: "binary.handling.mode", standard: "bytes", judge: func(_ subject, value string) opinion {
		if strings.EqualFold(value, "bytes") {
			return same("bytea is bytes")
		}
		return refused("set it to bytes, which is the default", "columns of bytea are sent as texts")
	}},
	{name: "decimal.handling.mode", judge: judgeModes}, {name: "time.precision.mode", judge: judgeModes}, {name: "interval.handling.mode", judge: judgeModes},
	{name: "hstore.handling.mode", judge: judgeModes}, {name: "money.fraction.digits", judge: judgeModes}, {name: "include.unknown.datatypes", judge: judgeModes},
	{name: "geometry.*", judge: judgeModes},
	{name: "unavailable.value.placeholder", judge: says("an insert has all values")},
	{name: "schema.name.adjustment.mode", judge: says("names of schemas are printed by JsonConverter with schemas alone; compare the records")},
	{name: "field.name.adjustment.mode", judge: func(_ subject, value string) opinion {
		if strings.EqualFold(value, "none") {
			return same("names of columns stay")
		}
		return differs("compare the records", "members of an expanded payload may have other names")
	}},
	{name: "schema.refresh.mode", judge: says("inserts have all columns")},
	{name: "converters", judge: func(subject, string) opinion {
		return refused("take them out of the connector and compare again", "converters of columns change values before the router reads them")
	}},
	{name: "custom.converters", judge: func(subject, string) opinion {
		return refused("take them out of the connector and compare again", "converters of columns change values before the router reads them")
	}},
	{name: "post.processors", judge: func(subject, string) opinion {
		return refused("take them out of the connector and compare again", "post processors change rows before the router reads them")
	}},
	{name: "topic.naming.strategy", judge: says("it names the topics of tables; the router replaces the names")},
	{name: "topic.delimiter", judge: says("with topic.naming.strategy")}, {name: "topic.cache.size", judge: says("with topic.naming.strategy")}, {name: "topic.transaction", judge: says("with provide.transaction.metadata")},
	{name: "sanitize.field.names", judge: says("names of columns are not sent, but for those of an envelope: compare the records")},

	// What becomes of failures, and of topics that are missing.
	{name: "errors.tolerance", standard: "none", always: true, judge: func(_ subject, value string) opinion {
		if strings.EqualFold(value, "all") {
			return differs("", "a record that cannot be converted is dropped with a line in the log; here it becomes a dead letter, and nothing is lost")
		}
		return same("a record that cannot be sent stops the task; here it becomes a dead letter, and only its key can wait for it")
	}},
	{name: "errors.*", judge: says("it is about the connector's own retries and log")},
	{name: "event.processing.failure.handling.mode", judge: func(_ subject, value string) opinion {
		if strings.EqualFold(value, "fail") {
			return same("a row that cannot be read stops the task; here it becomes a dead letter")
		}
		return differs("", "a row that cannot be read is left out; here it becomes a dead letter, and nothing is lost")
	}},
	{name: "exactly.once.support", judge: func(_ subject, value string) opinion {
		if strings.EqualFold(value, "required") {
			return differs("let consumers recognise an event by its header id", "records are sent in transactions of Kafka; here a fault can send an event twice, with the same id")
		}
		return same("a fault can send an event twice, with the same id")
	}},
	{name: "transaction.boundary", judge: says("with exactly.once.support")}, {name: "transaction.boundary.interval.ms", judge: says("with exactly.once.support")},
	{name: "topic.creation.*", judge: func(s subject, _ string) opinion {
		if s.ours.MayCreateTopics {
			return differs("create topics with the partitions and settings that you want", "Connect creates topics with these settings; here brokers create them by their own defaults")
		}
		return differs("create topics before their first event, or set kafka.allow_topic_creation", "Connect creates topics; here an event of a missing topic waits until the topic is there")
	}},

	// The producer.
	{name: "producer.override.compression.type", judge: func(s subject, value string) opinion {
		if strings.EqualFold(value, s.ours.Compression) {
			return same("kafka.compression is the same")
		}
		return differs("set kafka.compression to "+strings.ToLower(value), "batches are compressed by %s, and here by %s", value, s.ours.Compression)
	}},
	{name: "producer.override.max.request.size", judge: func(s subject, value string) opinion {
		if n, err := strconv.Atoi(value); err != nil || n <= s.ours.MaxMessageBytes {
			return same("events of this size are sent here, too")
		}
		return differs("set kafka.max_message_bytes to "+value, "records are sent up to %s bytes, and here up to %d", value, s.ours.MaxMessageBytes)
	}},
	{name: "producer.override.partitioner.class", judge: func(_ subject, value string) opinion {
		if shortClass(value) == "DefaultPartitioner" {
			return same("the partition follows from the key as Kafka's own clients choose it")
		}
		return refused("take it out, or name the column of the partition (table.fields.additional.placement=COLUMN:partition)", "%s chooses partitions, which is not run here", shortClass(value))
	}},
	{name: "producer.override.acks", judge: says("every replica in sync has a record before it counts as sent")},
	{name: "producer.override.enable.idempotence", judge: says("the producer is idempotent")},
	{name: "producer.override.bootstrap.servers", judge: func(subject, string) opinion {
		return differs("set kafka.brokers to them", "the connector writes to brokers of its own")
	}},
	{name: "producer.override.interceptor.classes", judge: func(_ subject, value string) opinion {
		return refused("take it out and compare again", "%s may change records", shortClass(value))
	}},
	{name: "producer.override.key.serializer", judge: says("converters make the bytes")}, {name: "producer.override.value.serializer", judge: says("converters make the bytes")},
	{name: "producer.override.linger.ms", judge: speed}, {name: "producer.override.batch.size", judge: speed}, {name: "producer.override.buffer.memory", judge: speed},
	{name: "producer.override.max.in.flight.requests.per.connection", judge: speed}, {name: "producer.override.delivery.timeout.ms", judge: speed},
	{name: "producer.override.request.timeout.ms", judge: speed}, {name: "producer.override.retries", judge: speed}, {name: "producer.override.max.block.ms", judge: speed},
	{name: "producer.override.client.id", judge: says("kafka.client_id is ours")},
	{name: "producer.override.security.*", judge: login}, {name: "producer.override.sasl.*", judge: login}, {name: "producer.override.ssl.*", judge: login},

	// Connections and pace.
	{name: "database.hostname", judge: connection}, {name: "database.port", judge: connection}, {name: "database.user", judge: connection},
	{name: "database.password", hidden: true, judge: connection}, {name: "database.dbname", always: true, judge: connection}, {name: "database.*", judge: connection}, {name: "driver.*", judge: connection},
	{name: "tasks.max", judge: speed}, {name: "tasks.max.enforce", judge: speed}, {name: "max.batch.size", judge: speed}, {name: "max.queue.size", judge: speed},
	{name: "max.queue.size.in.bytes", judge: speed}, {name: "poll.interval.ms", judge: speed}, {name: "streaming.delay.ms", judge: speed}, {name: "query.fetch.size", judge: speed},
	{name: "retriable.restart.connector.wait.ms", judge: speed}, {name: "connection.validation.timeout.ms", judge: speed}, {name: "executor.shutdown.timeout.ms", judge: speed},
	{name: "min.row.count.to.stream.results", judge: speed}, {name: "read.only", judge: speed}, {name: "config.action.reload", judge: speed}, {name: "config.providers", judge: speed},
	{name: "offsets.storage.topic", judge: speed}, {name: "custom.metric.tags", judge: says("metrics are ours")}, {name: "openlineage.*", judge: says("it is about lineage, and in no record")},
}

var (
	speed      = says("it is about the connector's pace and errands, and in no record")
	login      = says("the login at the brokers is in kafka.*")
	connection = says("the address of the database is in database.url")
)

func judgeColumns(subject, string) opinion {
	return refused("take it out where it names columns of the outbox", "values of columns are left out or changed before the router reads them")
}

func judgeModes(_ subject, value string) opinion {
	return same("it counts where a column of such a type is the key, or an additional column; those types are named by the check of the table")
}

func judgeFlush(s subject, value string) opinion {
	if strings.EqualFold(value, "false") || strings.EqualFold(value, "manual") || strings.EqualFold(value, "external") {
		return differs("let the connector confirm the slot in the cutover", "the connector does not confirm what it has sent, and the cutover would wait")
	}
	return same("the connector confirms what it has sent")
}
