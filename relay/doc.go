// Package relay carries outbox events to Kafka: it claims shards, publishes their events, settles the
// outcome, keeps back what cannot go now, and hands what is given up to the dead-letter topic. It holds
// the decisions; the database and the broker are behind the ports Store and Publisher.
//
// One batch is one cycle: claim (the lock on the shard rows is the claim), mark (a small row that tells
// others who works on what), publish, settle, commit. A crash at any point releases the locks, and the
// events are claimed again.
package relay
