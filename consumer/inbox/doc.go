// Package inbox lets a service handle each message exactly once. The transaction that handles a message also writes a
// row about it, in the service's own PostgreSQL, so either both are committed or neither is.
//
// Brokers deliver at least once. A copy comes after a rebalance, after a crash between the handling and the commit of
// its offset, and when a relay lost the answer to a commit. [Once] inserts the id of the message into the table
// inbox_message and says whether it was new. If a copy comes while the first is being handled, it waits: one of the two
// wins, and if the winner is rolled back the other goes on.
//
//	processor, err := inbox.New(pool, inbox.Options{Group: "billing"})
//	...
//	_, err = processor.Process(ctx, inbox.IdentityOf(topic, partition, offset, timestamp, headers).String(),
//		func(ctx context.Context, tx pgx.Tx) error {
//			_, err := tx.Exec(ctx, `update account set balance = balance - $1 where id = $2`, amount, account)
//			return err
//		})
//
// In a service that uses the library consumer, [Handler] does this, and [IDOf] is the id: it is the same in a retry topic
// as where the message was first read, which that of a record in a retry topic by [IdentityOf] is not.
//
// A [Processor] begins the transaction, asks the inbox, runs the handler and commits. It does so again after a
// serialization failure or a deadlock, and after a commit whose answer was lost: the inbox then tells whether that
// commit was made. Only the handler's work in its transaction is exactly once; a mail that it sends is not.
//
// # The table
//
// The table belongs to the service and stands in its schema: [Migrate] creates it, or a migration of the service with
// the SQL of [Script] (postrider inbox schema prints it). Writers in other languages need one statement:
//
//	insert into inbox_message (consumer_group, message_id) values ('billing', 'event:…') on conflict do nothing
//
// No row inserted means that the message was handled before. message_id is the header postrider-redrive-of where the
// record has it; otherwise event:EVENT with the header postrider-event-id; and for a record without both
// record:TOPIC/PARTITION/OFFSET@TIMESTAMP, the record's timestamp in milliseconds: without the timestamp, records of a
// topic that was deleted and created again would be taken for copies. With consumer.Tiers a message without these headers is
// read at another place in its retry topic; [Handler] and [IDOf] know where it was read first.
//
// # Redrives
//
// A message that was given up and is redriven or replayed keeps its id. The group that failed has not noted the id, and
// handles the message. A group that has handled the message before leaves it alone, also where an operator has changed it:
// the change is for the group that failed. What every group must see is a new event.
//
// # Retention
//
// [Purge] and [RunPurger] remove the rows of messages that were handled long ago. If a copy comes after its row was removed,
// it is handled again, so keep rows longer than any copy can take:
//
//   - the retention of the topic, because a group's offsets can be lost or set back to its beginning; if the topic is
//     kept for ever, purge only if its offsets are never set back;
//   - the longest time after which a dead letter is redriven or replayed: the ids stay the same;
//   - the longest outage of a relay: when it is back, it sends the events again that it sent but could not settle.
//
// A row takes about 200 bytes with its indexes. The table may be partitioned, by hash of message_id or by list of
// consumer_group; not by time, because the same message must meet its row.
package inbox
