package dlq

import (
	"slices"

	"github.com/postrider/postrider/message"
)

// The dialects, as their sources write them.

// readSpring reads what DeadLetterPublishingRecoverer writes (spring-kafka, KafkaHeaders). Each hop adds its headers to
// the earlier ones.
func readSpring(f *foreign, l *Letter) {
	f.origin(l, fixed, "kafka_dlt-original-topic", "kafka_dlt-original-partition", "kafka_dlt-original-offset")
	l.CreatedAt = f.millis(fixed, "kafka_dlt-original-timestamp")
	l.ConsumerGroup = f.text("kafka_dlt-original-consumer-group", maxNameBytes)
	f.attempts(l, fixed, "kafka_deliveryAttempt")
	f.failure(l, "kafka_dlt-exception-message", "kafka_dlt-exception-stacktrace",
		"kafka_dlt-exception-cause-fqcn", "kafka_dlt-exception-fqcn", "kafka_dlt-key-exception-fqcn")
	f.keyFailure(l, "kafka_dlt-key-exception-message", "kafka_dlt-key-exception-stacktrace")
}

// readSpringRetry reads what @RetryableTopic writes (spring-kafka, RetryTopicHeaders): the origin is kept from the
// first hop, and the name of the consumer group's header really has dlt in it.
func readSpringRetry(f *foreign, l *Letter) {
	f.origin(l, fixed, "kafka_original-topic", "kafka_original-partition", "kafka_original-offset")
	l.CreatedAt = f.millis(fixed, "kafka_original-timestamp")
	if l.CreatedAt.IsZero() {
		l.CreatedAt = f.millis(bigEndian, "retry_topic-original-timestamp")
	}
	l.ConsumerGroup = f.text("kafka_dlt-original-consumer-group", maxNameBytes)
	f.attempts(l, fixed, "retry_topic-attempts")
	if l.Attempts != nil && *l.Attempts > 1 {
		*l.Attempts-- // Spring counts the delivery that the record is on its way to: here the one to the dead-letter topic
	}
	f.failure(l, "kafka_exception-message", "kafka_exception-stacktrace",
		"kafka_exception-cause-fqcn", "kafka_exception-fqcn", "kafka_key-exception-fqcn")
	f.keyFailure(l, "kafka_key-exception-message", "kafka_key-exception-stacktrace")
}

// keyFailure sets what went wrong with the key, where nothing else did.
func (f *foreign) keyFailure(l *Letter, message, stack string) {
	if l.ErrorMessage == "" {
		l.ErrorMessage = f.text(message, maxMessageBytes)
	}
	if l.ErrorStack == "" {
		l.ErrorStack = f.text(stack, maxStackBytes)
		l.Root = rootOf(l.ErrorCode, l.ErrorMessage, string(f.last(stack)))
	}
}

// readConnect reads what a sink connector writes (KIP-298). A connector is its own group, and the letter has the
// timestamp of the record.
func readConnect(f *foreign, l *Letter) {
	f.origin(l, decimal, "__connect.errors.topic", "__connect.errors.partition", "__connect.errors.offset")
	l.CreatedAt = l.DLQRecordAt
	l.ConsumerGroup = f.text("__connect.errors.connector.name", maxNameBytes)
	f.failure(l, "__connect.errors.exception.message", "__connect.errors.exception.stacktrace", "__connect.errors.exception.class.name")
	if stage := f.text("__connect.errors.stage", maxNameBytes); stage != "" {
		l.ErrorClass = stage // KEY_CONVERTER, VALUE_CONVERTER, TRANSFORMATION, TASK_PUT …
	}
}

// readStreams reads what Kafka Streams writes (KIP-1034). A letter about a failure to produce has neither key nor
// value.
func readStreams(f *foreign, l *Letter) {
	f.origin(l, decimal, "__streams.errors.topic", "__streams.errors.partition", "__streams.errors.offset")
	f.failure(l, "__streams.errors.message", "__streams.errors.stacktrace", "__streams.errors.exception")
	l.refer()
}

// readShareGroup reads what a broker writes for a share group (KIP-1191). Unless copying is switched on the letter
// has neither key nor value, and points to the record instead.
func readShareGroup(f *foreign, l *Letter) {
	f.origin(l, decimal, "__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset")
	l.ConsumerGroup = f.text("__dlq.errors.group", maxNameBytes)
	f.attempts(l, decimal, "__dlq.errors.delivery.count")
	l.ErrorMessage = f.text("__dlq.errors.message", maxMessageBytes)
	l.ErrorCode = "SHARE_GROUP"
	l.refer()
}

// refer makes a letter without key and value one that refers to the record that it is about.
func (l *Letter) refer() {
	if l.Key == nil && l.Payload == nil && l.OriginPartition != nil && l.OriginOffset != nil {
		l.KeyKind, l.PayloadKind, l.PayloadBytes = Reference, Reference, nil
	}
}

// readCloudStream reads what the Kafka binder of Spring Cloud Stream writes; how it writes numbers differs.
func readCloudStream(f *foreign, l *Letter) {
	f.origin(l, either, "x-original-topic", "x-original-partition", "x-original-offset")
	l.CreatedAt = f.millis(either, "x-original-timestamp")
	f.failure(l, "x-exception-message", "x-exception-stacktrace", "x-exception-fqcn")
}

// readSmallRye reads what SmallRye Reactive Messaging writes: on its way through retry topics (failure strategy
// delayed-retry-topic), and into a dead-letter topic. Each hop puts its headers before the headers of earlier hops.
func readSmallRye(f *foreign, l *Letter) {
	for _, vs := range f.values {
		slices.Reverse(vs)
	}
	const retry, dead = "delayed-retry-", "dead-letter-"
	newest := dead
	if len(f.values[dead+"topic"]) == 0 && len(f.values[dead+"reason"]) == 0 {
		newest = retry
	}
	if len(f.values[retry+"topic"]) > 0 {
		f.origin(l, decimal, retry+"topic", retry+"partition", retry+"offset")
		l.CreatedAt = f.millis(decimal, retry+"original-timestamp")
		f.attempts(l, decimal, retry+"count")
	} else {
		f.origin(l, decimal, dead+"topic", dead+"partition", dead+"offset")
	}
	// The topic after the first is a retry topic, which this application alone reads.
	if hops := append(f.values[retry+"topic"], f.values[dead+"topic"]...); len(f.values[retry+"topic"]) > 0 && len(hops) > 1 {
		if topic := storableText(string(hops[1]), maxNameBytes); message.ValidTopic(topic) == nil && topic != l.OriginTopic {
			l.RetryTopic = topic
		}
	}
	f.failure(l, newest+"reason", "", newest+"cause-class-name", newest+"exception-class-name")
	outer, root := f.text(newest+"exception-class-name", maxNameBytes), exception{class: f.text(newest+"cause-class-name", maxNameBytes)}
	cause := f.text(newest+"cause", maxMessageBytes)
	if root.message = cut(cause, maxCauseBytes-maxNameBytes-2); root.class != "" && l.Root.Class == "" {
		l.Root.Class, l.Root.Message = root.class, root.message
		l.Root.Wraps = wraps(outer) || l.ErrorMessage == "" || l.ErrorMessage == root.text()
	}
	if l.ErrorMessage == "" {
		l.ErrorMessage = cause
	}
}

// readWolverine reads what Wolverine writes. The original destination is a URI whose last part is the topic.
func readWolverine(f *foreign, l *Letter) {
	if vs := f.values["original-destination"]; len(vs) > 0 {
		f.values["original-destination"] = [][]byte{[]byte(lastPart(string(vs[0])))}
	}
	f.origin(l, decimal, "original-destination", "original-partition", "original-offset")
	l.LastFailedAt = f.millis(decimal, "failed-at")
	l.FirstFailedAt = f.millis(decimal, "wolverine-kafka-retry-first-failed")
	f.attempts(l, decimal, "attempts")
	f.failure(l, "exception-message", "exception-stack", "exception-type")
}

// readKarafka reads what Karafka writes from 2.5 on.
func readKarafka(f *foreign, l *Letter) { readKarafkaAs(f, l, "source_") }

// readOldKarafka reads what Karafka wrote before.
func readOldKarafka(f *foreign, l *Letter) { readKarafkaAs(f, l, "original_") }

func readKarafkaAs(f *foreign, l *Letter, prefix string) {
	f.origin(l, decimal, prefix+"topic", prefix+"partition", prefix+"offset")
	l.ConsumerGroup = f.text(prefix+"consumer_group", maxNameBytes)
	f.attempts(l, decimal, prefix+"attempts")
}

// lastPart is what follows the last slash.
func lastPart(s string) string {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return s[i+1:]
		}
	}
	return s
}
