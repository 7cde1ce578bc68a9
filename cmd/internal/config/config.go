package config

import (
	"log/slog"
	"reflect"
	"strings"
	"time"
)

// The comment of every field below ends with its default or with "Required."; a test compares
// these sentences with the tags, which are what the code reads.

// Config is everything that can be set. Print it freely: secrets are masked.
type Config struct {
	// Database says where the outbox is. Required.
	Database Database `key:"database"`
	// Kafka says where events go and how they are sent. Required.
	Kafka Kafka `key:"kafka"`
	// Outbox says how the relay works. Defaults to the defaults of its fields.
	Outbox Outbox `key:"outbox"`
	// DLQ says where dead letters go and who collects them. Defaults to the defaults of its fields.
	DLQ DLQ `key:"dlq"`
	// Collector says what more is read as dead letters. Defaults to the defaults of its fields.
	Collector Collector `key:"collector"`
	// Tasks says what holds for all tasks of the ledger. Defaults to the defaults of its fields.
	Tasks Tasks `key:"tasks"`
	// Staleness says when tasks are stale and what becomes of them. Defaults to the defaults of its fields.
	Staleness Staleness `key:"staleness"`
	// Archive says when ended tasks are moved to the archive. Defaults to the defaults of its fields.
	Archive Archive `key:"archive"`
	// HTTP says where health, metrics and the API are served, and within what bounds. Defaults to the defaults of its fields.
	HTTP HTTP `key:"http"`
	// Console says how the web console is served, and how long its sessions last. Defaults to the defaults of its fields.
	Console Console `key:"console"`
	// MCP says how agents are served. Defaults to the defaults of its fields.
	MCP MCP `key:"mcp"`
	// Log sets the level and the format of the log. Defaults to the defaults of its fields.
	Log Log `key:"log"`
	// Tracing says whether spans are made, and where they go. Defaults to the defaults of its fields.
	Tracing Tracing `key:"tracing"`
	// Topics are the rules for single topics, in the order of the file; TopicSettings applies them.
	// Only the file can give them. Defaults to none.
	Topics []TopicRule
	// Sources are the databases beside that of database.url whose outboxes are carried, in the order of their names: the
	// list of the file, and the files of SourcesDir. Only the file can give them. Defaults to none.
	Sources []Source
	// SourcesDir is a folder with one file for each further source. Only the file can give it. Defaults to "".
	SourcesDir string

	origins map[string]origin // where the value of each key came from
}

// Database is the section database.
type Database struct {
	// URL is the PostgreSQL connection string, a URL or keyword=value pairs. It must lead to a primary; give several
	// hosts target_session_attrs=read-write. Keep the password out of the file: give DATABASE_URL in the environment,
	// PGPASSWORD, a .pgpass, or password_file. Required.
	URL DatabaseURL `key:"url" required:"true" check:"database" help:"PostgreSQL connection string"`
	// Pooler says what stands before the database: auto finds out, none is PostgreSQL itself (or a pooler in session mode
	// that lets session parameters through), transaction is a pooler in transaction mode (PgBouncer, for example): nothing
	// is kept in sessions then and no statement is prepared. Defaults to "auto".
	Pooler string `key:"pooler" default:"auto" oneof:"auto none transaction" help:"pooler before the database: auto, none or transaction"`
	// PasswordFile is a file that has nothing but the password. It is read again for each connection, so that a new
	// password needs no restart, and counts instead of a password in the connection string. If a flag or the environment
	// gives a connection string with a password, a password file that the settings file names does not count. Defaults to "".
	PasswordFile string `key:"password_file" default:"" check:"optional" help:"file with the password of the database, read again for each connection"`
}

// Kafka is the section kafka. In the file the keys that begin with tls_ may stand in a block tls, and the keys that begin
// with sasl_ in a block sasl, without that word.
type Kafka struct {
	// Brokers are the addresses to begin with, each host:port; the other brokers are learnt from them. Required.
	Brokers []string `key:"brokers" required:"true" check:"broker" help:"Kafka brokers to begin with, host:port, separated by commas"`
	// ClientID is the name under which brokers log and limit this process. Defaults to "postrider".
	ClientID string `key:"client_id" default:"postrider" help:"name of this process in the brokers' logs and quotas"`
	// MaxMessageBytes is the largest batch of records to send, in bytes, and so the largest event. Keep it at or below
	// message.max.bytes of the brokers and max.message.bytes of the topics. The least value leaves room for a dead letter
	// that only refers to its event. Defaults to 1048588.
	MaxMessageBytes int `key:"max_message_bytes" default:"1048588" min:"4096" max:"1000000000" help:"largest batch to send, in bytes; at most the brokers' message.max.bytes"`
	// MaxRequestBytes is the largest request to a broker, in bytes: at most its socket.request.max.bytes, and 1046528 for
	// Azure Event Hubs. Brokers close the connection on larger ones. An event must fit into it, beside 16384 bytes. If
	// brokers cut large requests all the same, requests are smaller until the next start. Defaults to 104857600.
	MaxRequestBytes int `key:"max_request_bytes" default:"104857600" min:"65536" max:"1073741824" help:"largest request to a broker, in bytes; 1046528 for Azure Event Hubs"`
	// Compression is that of the batches: none, lz4, zstd, snappy or gzip. Defaults to "none".
	Compression string `key:"compression" default:"none" oneof:"none lz4 zstd snappy gzip" help:"compression of batches: none, lz4, zstd, snappy or gzip"`
	// AllowTopicCreation lets the brokers create a missing topic when an event for it is sent, if they are set up to.
	// Without it a missing topic holds its own events, and no others, until the topic is created. Defaults to false.
	AllowTopicCreation bool `key:"allow_topic_creation" default:"false" help:"let brokers create missing topics"`
	// TLSEnabled talks to the brokers through TLS 1.2 or newer and checks their certificates and names. Defaults
	// to false.
	TLSEnabled bool `key:"tls_enabled" default:"false" help:"talk to the brokers through TLS"`
	// TLSCAFile is a PEM file of the authorities that sign the brokers' certificates; without it the authorities of the
	// system count. The file, the certificate and the key are read again for each connection. Defaults to "".
	TLSCAFile string `key:"tls_ca_file" default:"" check:"optional" help:"PEM file of the authorities that sign the brokers' certificates; empty is the system's"`
	// TLSCertFile is a PEM file of the certificate that this process shows to brokers (mTLS), with its chain;
	// needs tls_key_file. Defaults to "".
	TLSCertFile string `key:"tls_cert_file" default:"" check:"optional" help:"PEM file of the certificate shown to brokers (mTLS)"`
	// TLSKeyFile is a PEM file of that certificate's private key, not encrypted. Defaults to "".
	TLSKeyFile string `key:"tls_key_file" default:"" check:"optional" help:"PEM file of the private key of that certificate"`
	// TLSInsecureSkipVerify accepts any certificate from a broker: an attacker on the network path can then read and change
	// everything. For tests only; each start warns. Defaults to false.
	TLSInsecureSkipVerify bool `key:"tls_insecure_skip_verify" default:"false" help:"take any certificate for the brokers', for tests only"`
	// SASLMechanism is how this process logs in: none, plain, scram-sha-256, scram-sha-512, oauthbearer or aws_msk_iam,
	// in capitals or not. aws_msk_iam is Amazon MSK's and needs TLS; docs/security.md says where it finds its keys and
	// what its role must allow. Defaults to "none".
	SASLMechanism string `key:"sasl_mechanism" default:"none" oneof:"none plain scram-sha-256 scram-sha-512 oauthbearer aws_msk_iam" help:"login at the brokers: none, plain, scram-sha-256, scram-sha-512, oauthbearer or aws_msk_iam"`
	// SASLUsername is the user of plain and scram. Defaults to "".
	SASLUsername string `key:"sasl_username" default:"" check:"optional" help:"user of the login, for plain and scram"`
	// SASLPassword is the password of plain and scram, without blanks at its ends. Keep it out of the file: give
	// KAFKA_SASL_PASSWORD in the environment, or better sasl_password_file. Defaults to "".
	SASLPassword Secret `key:"sasl_password" default:"" check:"optional" help:"password of the login; better sasl_password_file"`
	// SASLPasswordFile is a file that has nothing but the password; it is read again for each login. Defaults to "".
	SASLPasswordFile string `key:"sasl_password_file" default:"" check:"optional" help:"file with the password of the login, read again for each connection"`
	// SASLTokenFile is a file that has nothing but the token of oauthbearer; it is read again for each login, so a renewed
	// token only has to replace the file. Defaults to "".
	SASLTokenFile string `key:"sasl_token_file" default:"" check:"optional" help:"file with the token of oauthbearer, read again for each connection"`
	// SASLAWSCredentialsFile is a file with the keys of aws_msk_iam; it is read again for each login. It is a shared
	// credentials file of AWS, where the profile AWS_PROFILE or default counts, or the JSON that "aws configure
	// export-credentials" prints. If neither it nor one of the next three settings is given, AWS's SDK looks for keys: in
	// the environment, in profiles, and by the role of the pod, task or instance. Defaults to "".
	SASLAWSCredentialsFile string `key:"sasl_aws_credentials_file" default:"" check:"optional" help:"credentials file of AWS for aws_msk_iam, read again for each connection"`
	// SASLAWSAccessKeyID is the access key of aws_msk_iam; needs sasl_aws_secret_access_key. Defaults to "".
	SASLAWSAccessKeyID string `key:"sasl_aws_access_key_id" default:"" check:"optional" help:"access key of aws_msk_iam; better sasl_aws_credentials_file"`
	// SASLAWSSecretAccessKey is the secret of that access key. Keep it out of the file: give
	// KAFKA_SASL_AWS_SECRET_ACCESS_KEY in the environment, or better sasl_aws_credentials_file. Defaults to "".
	SASLAWSSecretAccessKey Secret `key:"sasl_aws_secret_access_key" default:"" check:"optional" help:"secret of that access key"`
	// SASLAWSSessionToken goes with keys that end, and ends with them. Defaults to "".
	SASLAWSSessionToken Secret `key:"sasl_aws_session_token" default:"" check:"optional" help:"session token of these keys, where they have one"`
}

// Outbox is the section outbox.
type Outbox struct {
	// BatchSize is how many events the leader reads and sends at once; batches go one after the other. 20000 is for brokers
	// whose answers take a quarter of a second. Defaults to 5000.
	BatchSize int `key:"batch_size" default:"5000" min:"1" max:"20000" help:"events in a batch; 20000 for brokers whose answers take long"`
	// Dispatches is how many batches of events that come back behind holds are at the brokers at once, beside the batch of
	// the log. Defaults to 16.
	Dispatches int `key:"dispatches" default:"16" min:"1" max:"64" help:"batches of events behind holds that are at the brokers at once, beside the batch of the log"`
	// MaxAttempts is how many failed attempts an event has before it is dead-lettered; outages spend none. Defaults to 5.
	MaxAttempts int `key:"max_attempts" default:"5" min:"1" max:"1000" help:"failed attempts before an event is dead-lettered"`
	// RetryBase is the delay after the first failed attempt; it doubles with each further one, and
	// up to a fifth is added at random. In milliseconds. Defaults to 1000.
	RetryBase time.Duration `key:"retry_base_ms" default:"1000" min:"1" max:"86400000" help:"delay after the first failed attempt, in milliseconds; it doubles"`
	// RetryMax caps that delay, before the random part; at least retry_base_ms. In milliseconds. Defaults to 60000.
	RetryMax time.Duration `key:"retry_max_ms" default:"60000" min:"1" max:"86400000" help:"longest delay between attempts, in milliseconds"`
	// AfterLastAttempt decides about the later events of a key when one was given up: continue lets them go, halt_key holds
	// them until an operator deals with the event that was given up. Defaults to "continue".
	AfterLastAttempt string `key:"after_last_attempt" default:"continue" oneof:"continue halt_key" help:"later events of a key when one was given up: continue or halt_key"`
	// RouteDeadLetterAfter gives up the events of a topic that has been missing or refused for so
	// long; 0 is never, they wait until the topic is there. In seconds. Defaults to 0.
	RouteDeadLetterAfter time.Duration `key:"route_dead_letter_after_seconds" default:"0" min:"0" max:"31536000" help:"give up events of a topic that is missing or refused for so many seconds; 0 is never"`
	// MaxAge gives up events that could not be sent for so long because brokers, leaders or the topic were away; 0 is
	// never. It is not known then whether an event without an answer arrived: it may be in both topics. In seconds.
	// Defaults to 0.
	MaxAge time.Duration `key:"max_age_seconds" default:"0" min:"0" max:"31536000" help:"give up events that outages kept for so many seconds; 0 is never"`
	// CommitOrder publishes an event only when no transaction can commit an earlier one any more, for writers that do not
	// serialise on a key. A long transaction on the outbox then delays its topics. The identity column of the outbox must
	// keep its CACHE of 1. Defaults to false.
	CommitOrder bool `key:"commit_order" default:"false" help:"publish in the order of commits, for writers that do not serialise on a key"`
	// StormEvents opens a circuit breaker when more events of a topic than that are given up with one error code within
	// storm_window_seconds: it keeps the further ones that fail with this code, and every other event of the topic goes.
	// 0 switches circuit breakers off, and the events that one keeps come back when a relay begins to lead. Defaults to
	// 100.
	StormEvents int `key:"storm_events" default:"100" min:"0" max:"1000000" help:"events of a topic given up with one error code within the window that open a circuit breaker; 0 is never"`
	// StormWindow is the time in which storm_events counts given-up events. In seconds. Defaults to 60.
	StormWindow time.Duration `key:"storm_window_seconds" default:"60" min:"1" max:"86400" help:"time in which given up events are counted, in seconds"`
	// RetentionDays is how long published events stay in the table at least. They are removed by ranges of ids; 0
	// removes each range soon after all of it was acknowledged. Defaults to 30.
	RetentionDays int `key:"retention_days" default:"30" min:"0" max:"36500" help:"days that published events stay in the table at least; 0 removes them soon after they were acknowledged"`
	// DeadLetterRetentionDays is how long dead-lettered events stay in the table at least; they also
	// stay until their dead letter is recorded and no investigation of them is pending. Defaults to 30.
	DeadLetterRetentionDays int `key:"dead_letter_retention_days" default:"30" min:"1" max:"36500" help:"days that dead-lettered events stay in the table at least, and until their investigation is closed"`
	// IdempotencyRetentionDays is how long an idempotency key is known at least; after that a
	// repeated one writes a new event. Defaults to 30.
	IdempotencyRetentionDays int `key:"idempotency_retention_days" default:"30" min:"1" max:"36500" help:"days that idempotency keys are known at least"`
	// PublishTimeout bounds the wait for the acknowledgements of one batch. Events without one wait behind a hold of
	// their partition and are tried again. A stop may take this long, so it is kept well below 30 seconds. In
	// milliseconds. Defaults to 10000.
	PublishTimeout time.Duration `key:"publish_timeout_ms" default:"10000" min:"100" max:"12000" help:"longest wait for the acknowledgements of a batch, in milliseconds"`
	// Notifier lets writers wake an idle relay by a notification, so that it polls less often. It needs a database URL
	// that does not lead through a pooler in transaction mode, and a server with max_prepared_transactions at 0;
	// otherwise the relay polls. Defaults to true.
	Notifier bool `key:"notifier" default:"true" help:"let writers wake an idle relay"`
	// Log writes a line for every pass of the relay that did something. Defaults to false.
	Log bool `key:"log" default:"false" help:"log every pass of the relay that did something"`
}

// DLQ is the section dlq. In the file the keys that begin with reason_ may stand in a block reasons, without that word.
type DLQ struct {
	// Topic is the dead-letter topic; create it. Events that cannot be delivered go there. The collector reads it and the
	// dead-letter topics of the rules for single topics. Defaults to "postrider.dlq".
	Topic string `key:"topic" default:"postrider.dlq" check:"topic" help:"dead-letter topic"`
	// ConsumerTopic is the dead-letter topic of consumers with the library; the collector reads it, too. Brokers should let relays alone
	// write to Topic, and consumers to this one: what is read here is never taken for the dead letter of an event. Defaults to
	// "postrider.consumer.dlq".
	ConsumerTopic string `key:"consumer_topic" default:"postrider.consumer.dlq" check:"topic" help:"dead-letter topic of consumers with the library"`
	// Group is the consumer group of the collectors; all of one installation share it. Defaults to
	// "postrider-collector".
	Group string `key:"group" default:"postrider-collector" help:"consumer group of the collectors"`
	// Enabled sends dead letters of tasks that are stale, whose retries are spent or whose steps form a cycle. Dead letters
	// of events, and of tasks that a person dead-letters (manual_dlq), do not depend on it. Defaults to true.
	Enabled bool `key:"enabled" default:"true" help:"send dead letters of tasks"`
	// AutoDLQOnStaleness sends dead letters of stale tasks; staleness.auto_move_to_dlq must be true as well.
	// Defaults to true.
	AutoDLQOnStaleness bool `key:"auto_dlq_on_staleness" default:"true" help:"send dead letters of stale tasks"`
	// IncludeFullTaskSnapshot puts the task with its steps and history into its dead letter, and not only
	// what identifies it. Defaults to true.
	IncludeFullTaskSnapshot bool `key:"include_full_task_snapshot" default:"true" help:"put the task with steps and history into its dead letter"`
	// MaxPendingAge is how old a pending investigation may become before the alert about it. In hours.
	// Defaults to 168.
	MaxPendingAge time.Duration `key:"max_pending_age_hours" default:"168" min:"1" max:"87600" help:"hours after which a pending investigation is worth an alert"`
	// ReasonStalenessTimeout sends dead letters with this reason: the task exceeded a threshold. Defaults to
	// true.
	ReasonStalenessTimeout bool `key:"reason_staleness_timeout" default:"true" help:"dead letters of tasks that exceeded a threshold"`
	// ReasonMaxRetriesExceeded sends dead letters with this reason: the retries of a step are spent.
	// Defaults to true.
	ReasonMaxRetriesExceeded bool `key:"reason_max_retries_exceeded" default:"true" help:"dead letters of tasks with a step whose retries are spent"`
	// ReasonWorkerUnavailable sends dead letters with this reason: the task exceeded a threshold while no
	// worker of its namespace was heard of. Defaults to true.
	ReasonWorkerUnavailable bool `key:"reason_worker_unavailable" default:"true" help:"dead letters of stale tasks whose namespace has no worker"`
	// ReasonDependencyCycleDetected sends dead letters with this reason: the steps of the task form a cycle.
	// Defaults to true.
	ReasonDependencyCycleDetected bool `key:"reason_dependency_cycle_detected" default:"true" help:"dead letters of tasks whose steps form a cycle"`
	// ResolveOnDelivery closes an investigation as manually_resolved when the message that was sent again
	// from it is delivered. Defaults to true.
	ResolveOnDelivery bool `key:"resolve_on_delivery" default:"true" help:"close the investigations of redriven messages that are delivered"`
	// RedactPaths name values in JSON payloads and in tasks (context, metadata, inputs and results of steps) that
	// investigations and the API do not show: $.card.number, $.items[*].pan, $..password at any depth. Letters and tasks
	// keep the values; the scope read:payload shows them, and is audited. Without any path, everyone who may read an
	// investigation sees the payload; agents need read:payload for it. Defaults to "".
	RedactPaths []string `key:"redact_paths" default:"" check:"redact_path" help:"JSON paths of values that investigations and tasks do not show, separated by commas"`
	// RedactHeaders name headers that are not shown, in large or small letters; * stands for any characters. The names
	// given replace the default, which has the headers that usually carry credentials; [] shows all. Defaults to
	// "authorization,proxy-authorization,cookie,set-cookie,x-api-key,api-key,x-auth-token,x-access-token,x-csrf-token,x-amz-security-token".
	RedactHeaders []string `key:"redact_headers" default:"authorization,proxy-authorization,cookie,set-cookie,x-api-key,api-key,x-auth-token,x-access-token,x-csrf-token,x-amz-security-token" check:"redact_header" help:"headers that investigations do not show, separated by commas; by default the ones that usually carry credentials"`
	// OperationRetentionDays is how long operations stay after they ended. Redrives stay as long as their
	// investigation. In days. Defaults to 90.
	OperationRetentionDays int `key:"operation_retention_days" default:"90" min:"1" max:"36500" help:"days that operations stay after they ended"`
	// RetentionDays is how long closed investigations stay. With an investigation go its redrives,
	// and what its dead letters have of their messages. In days. Defaults to 90.
	RetentionDays int `key:"retention_days" default:"90" min:"1" max:"36500" help:"days that closed investigations stay, with the messages of their dead letters"`
	// AuditRetentionDays is how long rows of the audit log stay. In days. Defaults to 400.
	AuditRetentionDays int `key:"audit_retention_days" default:"400" min:"30" max:"36500" help:"days that rows of the audit log stay"`
	// PageSizeDefault is how many items a list of the API has when the request names no size; at most page_size_max.
	// Defaults to 25.
	PageSizeDefault int `key:"page_size_default" default:"25" min:"1" max:"1000" help:"items of a list of the API whose request names no limit"`
	// PageSizeMax is how many items a list of the API may have. Defaults to 100.
	PageSizeMax int `key:"page_size_max" default:"100" min:"1" max:"999" help:"items that a list of the API may have"`
	// RequeueLimit is how many investigations one request may requeue, and how many tasks it may retry. Defaults to 500.
	RequeueLimit int `key:"requeue_limit" default:"500" min:"1" max:"10000" help:"investigations that one request may requeue, and tasks that it may retry"`
	// PurgeLimit is how many investigations one request may purge. Defaults to 1000.
	PurgeLimit int `key:"purge_limit" default:"1000" min:"1" max:"10000" help:"investigations that one request may purge"`
}

// Collector is the section collector.
type Collector struct {
	// Topics are further dead-letter topics to read, beside the topics that the relay writes to. Known are the dead
	// letters of Spring Kafka, Kafka Connect, Kafka Streams, share groups, Spring Cloud Stream, SmallRye, Wolverine and
	// Karafka; any other is read as it is. Defaults to "".
	Topics []string `key:"topics" default:"" check:"topic" help:"further dead-letter topics to read, separated by commas"`
	// EarlierDesks are identities of desks that this one takes the place of, for example after its database was lost: the
	// collector goes on with their consumer group, and reads the dead letters of the sources that obeyed them. Log lines and
	// errors name the identity; it is outbox_source.source_uuid of the desk's database. Defaults to "".
	EarlierDesks []string `key:"earlier_desks" default:"" check:"desk" help:"identities of desks that this one takes the place of, separated by commas"`
	// Patterns are regular expressions, for example '.*[-.](dlq|dlt|DLT)'; topics whose whole names they fit are read as
	// dead-letter topics, also topics that are created later. Kafka's own topics and the retry topics of consumers are
	// not. Defaults to "".
	Patterns []string `key:"patterns" default:"" check:"topic_pattern" help:"regular expressions of further dead-letter topics to read, such as .*[-.](dlq|dlt|DLT), separated by commas"`
	// HeadersTopic and the settings below name the headers in which programs of your own write what their dead letters say,
	// several with commas: the first that is there counts. With HeadersTopic or HeadersError a dead letter is known. In the
	// file they may stand in a block headers. HeadersTopic is the topic that the message came from. Defaults to "".
	HeadersTopic []string `key:"headers_topic" default:"" check:"optional" help:"headers of home-made dead letters that have the topic that the message came from, separated by commas"`
	// HeadersPartition is its partition, as decimal text. Defaults to "".
	HeadersPartition []string `key:"headers_partition" default:"" check:"optional" help:"headers of home-made dead letters that have its partition, as decimal text, separated by commas"`
	// HeadersOffset is its offset, as decimal text. Defaults to "".
	HeadersOffset []string `key:"headers_offset" default:"" check:"optional" help:"headers of home-made dead letters that have its offset, as decimal text, separated by commas"`
	// HeadersTimestamp is its time, in Unix milliseconds or as in RFC 3339. Defaults to "".
	HeadersTimestamp []string `key:"headers_timestamp" default:"" check:"optional" help:"headers of home-made dead letters that have its time, in Unix milliseconds or as in RFC 3339, separated by commas"`
	// HeadersGroup is the consumer group that failed. Defaults to "".
	HeadersGroup []string `key:"headers_group" default:"" check:"optional" help:"headers of home-made dead letters that have the consumer group that failed, separated by commas"`
	// HeadersAttempts is how often it was tried, as decimal text. Defaults to "".
	HeadersAttempts []string `key:"headers_attempts" default:"" check:"optional" help:"headers of home-made dead letters that have how often it was tried, as decimal text, separated by commas"`
	// HeadersCode is what kind of error it was, such as the class of an exception. Defaults to "".
	HeadersCode []string `key:"headers_code" default:"" check:"optional" help:"headers of home-made dead letters that have what kind of error it was, such as the class of an exception, separated by commas"`
	// HeadersError is the message of the error. Defaults to "".
	HeadersError []string `key:"headers_error" default:"" check:"optional" help:"headers of home-made dead letters that have the message of the error, separated by commas"`
	// HeadersStack is the stack trace. Defaults to "".
	HeadersStack []string `key:"headers_stack" default:"" check:"optional" help:"headers of home-made dead letters that have the stack trace, separated by commas"`
}

// HTTP is the section http.
type HTTP struct {
	// Address is where /livez, /readyz, /metrics and the API are served, host:port; port 0 picks a free one, an empty
	// host (":8080") is every interface. Defaults to "127.0.0.1:8080".
	Address string `key:"address" default:"127.0.0.1:8080" check:"listen" help:"where to serve health, metrics and the API; also --http"`
	// API serves the operations of the desk under /v1 and /api/v1, to holders of keys (postrider apikey create). Defaults
	// to true.
	API bool `key:"api" default:"true" help:"serve the API of the desk, to holders of keys"`
	// RequestTimeout bounds each operation of the API, but for planning an operation, which may take two minutes. In
	// milliseconds. Defaults to 20000.
	RequestTimeout time.Duration `key:"request_timeout_ms" default:"20000" min:"100" max:"60000" help:"longest that an operation of the API may take, in milliseconds"`
	// MaxBodyBytes is the largest body of a request, in bytes. Defaults to 1048576.
	MaxBodyBytes int `key:"max_body_bytes" default:"1048576" min:"1024" max:"67108864" help:"largest body of a request, in bytes"`
	// RequestsPerSecond is how often each key may ask, on average; requests that send messages again or
	// remove rows count 25 times. 0 does not limit. Defaults to 500.
	RequestsPerSecond int `key:"requests_per_second" default:"500" min:"0" max:"1000000" help:"requests a second of each key; 0 is no limit"`
	// RequestBurst is how many requests of a key may come at once. Defaults to 1000.
	RequestBurst int `key:"request_burst" default:"1000" min:"1" max:"1000000" help:"requests of a key that may come at once"`
	// FailedLoginsPerMinute is how often an address may present a key that does not work; then it waits.
	// 0 does not limit. Defaults to 10.
	FailedLoginsPerMinute int `key:"failed_logins_per_minute" default:"10" min:"0" max:"1000000" help:"keys that do not work, a minute and address; 0 is no limit"`
	// TrustedProxies are the addresses, or networks such as 10.0.0.0/8, of proxies before this process. Of a request from
	// there X-Forwarded-For says which client is counted by failed_logins_per_minute, and X-Forwarded-Proto whether the
	// browser of the console came by https. From elsewhere these headers say nothing. Networks wider than /8 of IPv4, /16 of IPv6 or /7 in fc00::/7
	// are refused: every client could choose its address. Defaults to "".
	TrustedProxies []string `key:"trusted_proxies" default:"" check:"network" help:"addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto count, separated by commas"`
	// IdempotencyTTL is how long the answer to a request with an Idempotency-Key is kept. In hours.
	// Defaults to 24.
	IdempotencyTTL time.Duration `key:"idempotency_ttl_hours" default:"24" min:"1" max:"8760" help:"hours that answers to requests with an Idempotency-Key are kept"`
}

// MCP is the section mcp, of postrider mcp.
type MCP struct {
	// Address is where postrider mcp --transport http serves agents, host:port; port 0 picks a free one, an empty host
	// (":8090") is every interface. Defaults to "127.0.0.1:8090".
	Address string `key:"address" default:"127.0.0.1:8090" check:"listen" help:"where to serve agents with --transport http"`
	// AllowWrites lets agents publish pending events, try again and clean up, with keys that have the scopes redrive and
	// purge. Each action is previewed first, and done when the preview is confirmed. Without it agents only read.
	// Defaults to false.
	AllowWrites bool `key:"allow_writes" default:"false" help:"let agents publish, try again and clean up, with keys that may; also --allow-writes"`
	// ConfirmTTL is how long a preview may be confirmed, once. In seconds. Defaults to 120.
	ConfirmTTL time.Duration `key:"confirm_ttl_seconds" default:"120" min:"5" max:"3600" help:"seconds in which a preview may be confirmed"`
	// AllowedOrigins are the web pages that may call, for example https://agents.example.com, separated by commas or as a
	// list; programs send no Origin and need none. Defaults to "".
	AllowedOrigins []string `key:"allowed_origins" default:"" check:"origin" help:"origins of web pages that may call, separated by commas"`
}

// Log is the section log.
type Log struct {
	// Level is the least severe level that is written: debug, info, warn or error. Defaults to
	// "info".
	Level string `key:"level" default:"info" oneof:"debug info warn error" help:"least severe level to log: debug, info, warn or error"`
	// Format is json, one object a line, text, or words, which is for people. Commands that end by themselves, such as
	// outbox process, write words unless this or outbox.log is set. Defaults to "json".
	Format string `key:"format" default:"json" oneof:"json text words" help:"log format: json, text or words"`
}

// String lists every key with its value, one a line, secrets masked, and then the rules for topics.
func (c Config) String() string {
	var b strings.Builder
	for _, k := range Keys() {
		b.WriteString(k.String() + ": " + k.text(c) + "\n")
	}
	for _, r := range c.Topics {
		b.WriteString("topics: " + r.String() + "\n")
	}
	for _, s := range c.Sources {
		b.WriteString("sources: " + s.String() + "\n")
	}
	return b.String()
}

// GoString is String, so that %#v shows no more.
func (c Config) GoString() string { return c.String() }

// LogValue groups the values by section, secrets masked.
func (c Config) LogValue() slog.Value {
	var sections, values []slog.Attr
	keys := Keys()
	for i, k := range keys {
		values = append(values, slog.String(k.Name, k.text(c)))
		if i+1 == len(keys) || keys[i+1].Section != k.Section {
			sections = append(sections, slog.Attr{Key: k.Section, Value: slog.GroupValue(values...)})
			values = nil
		}
	}
	if len(c.Topics) > 0 {
		var rules []string
		for _, r := range c.Topics {
			rules = append(rules, r.String())
		}
		sections = append(sections, slog.Any("topics", rules))
	}
	if len(c.Sources) > 0 {
		names := make([]string, len(c.Sources))
		for i, s := range c.Sources {
			names[i] = s.Name
		}
		sections = append(sections, slog.Any("sources", names))
	}
	return slog.GroupValue(sections...)
}

// fieldOf returns the field of a key inside a Config.
func (k Key) fieldOf(c reflect.Value) reflect.Value { return c.Field(k.index[0]).Field(k.index[1]) }
