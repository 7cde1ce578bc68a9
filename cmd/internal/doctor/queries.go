package doctor

import _ "embed"

//go:embed queries/server.sql
var serverQuery string

//go:embed queries/service.sql
var serviceQuery string

//go:embed queries/connections.sql
var connectionsQuery string

//go:embed queries/transactions.sql
var transactionsQuery string

//go:embed queries/trigrams.sql
var trigramsQuery string

//go:embed queries/may_create.sql
var mayCreateQuery string

//go:embed queries/missing_rights.sql
var missingRightsQuery string

//go:embed queries/schema_usage.sql
var schemaUsageQuery string

//go:embed queries/row_security.sql
var rowSecurityQuery string

//go:embed queries/sequence.sql
var sequenceQuery string

//go:embed queries/autovacuum.sql
var autovacuumQuery string

//go:embed queries/vacuumed.sql
var vacuumedQuery string

//go:embed queries/clock.sql
var clockQuery string

//go:embed queries/topics.sql
var topicsQuery string

//go:embed queries/letters_topic.sql
var lettersTopicQuery string

//go:embed queries/switch.sql
var switchQuery string

//go:embed queries/operations.sql
var operationsQuery string

//go:embed queries/investigations.sql
var investigationsQuery string

//go:embed queries/subscriptions.sql
var subscriptionsQuery string

//go:embed queries/additions.sql
var additionsQuery string

//go:embed queries/durability.sql
var durabilityQuery string

//go:embed queries/leader.sql
var leaderQuery string

//go:embed queries/retention.sql
var retentionQuery string

//go:embed queries/receipts.sql
var receiptsQuery string

//go:embed queries/holds.sql
var holdsQuery string

//go:embed queries/sessions.sql
var sessionsQuery string

//go:embed queries/parts.sql
var partsQuery string

//go:embed queries/forwards.sql
var forwardsQuery string
