// Package inbox lets a service handle each message exactly once: that a message was handled is noted in the
// transaction that handles it, in the service's own PostgreSQL, so both are there or neither is.
//
// Brokers deliver at least once. A copy comes after a rebalance, after a crash between the handling and the commit of
// its offset, and when a relay lost the answer to a commit. [Once] inserts what tells the message from others into the
// table inbox_message and says whether it was new. A copy that comes while the first is being handled waits for it: one
// wins, and where that one is rolled back the other goes on.
//
//	processor, err := inbox.New(pool, inbox.Options{Group: "billing"})
//	...
//	_, err = processor.Process(ctx, inbox.IdentityOf(topic, partition, offset, timestamp, headers).String(),
//		func(ctx context.Context, tx pgx.Tx) error {
//			_, err := tx.Exec(ctx, `update account set balance = balance - $1 where id = $2`, amount, account)
//			return err
//		})
//
// A [Processor] begins the transaction, asks the inbox, runs the handler and commits. It does so again where the
// database took the transaction back because of others, and where the answer to the commit was lost: the inbox then
// tells whether it was made. Only what the handler does in its transaction is exactly once; a mail that it sends is not.
//
// # The table
//
// The table belongs to the service and stands in its schema: [Migrate] creates it, or a migration of the service with
// what [Script] returns (postrider inbox schema prints it). Writers in other languages need one statement:
//
//	insert into inbox_message (consumer_group, message_id) values ('billing', 'event:…') on conflict do nothing
//
// No row inserted means that the message was handled. message_id is event:EVENT with the header postrider-event-id, and
// for a record without it record:TOPIC/PARTITION/OFFSET@TIMESTAMP, the record's timestamp in milliseconds: without that,
// the records of a topic that was deleted and made anew would be taken for copies. [Identity.String] has every form.
//
// # Retention
//
// [Purge] and [Keep] remove what was handled long ago. A copy that comes after its row is gone is new again, so keep
// rows longer than any copy can take:
//
//   - the retention of the topic, because a group's offsets can be lost or set back to its beginning; a topic that is
//     kept for ever allows no purge, unless nobody ever does that;
//   - the longest replay, from an archive or by hand, that keeps event ids (redrives have ids of their own);
//   - the longest outage of a relay: what it sent but could not settle it sends again when it is back.
//
// A row takes about 200 bytes with its indexes. The table may be partitioned, by hash of message_id or by list of
// consumer_group; not by time, because the same message must meet its row.
package inbox
