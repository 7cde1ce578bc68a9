// Package consumer reads Kafka topics as a member of a consumer group. Every message comes to an end: the handler
// handles it, at the first or at a later attempt, or the consumer gives it up and writes it to a dead-letter topic with
// its bytes, its origin and the reason. The offset of a message is committed only after the message was handled or was
// written to a retry topic or the dead-letter topic. While neither is possible, its partition stands, and the log, the
// metrics and Status say so.
//
//	client, err := kafka.NewClient(kafka.Config{Brokers: brokers})
//	c, err := consumer.New(consumer.Config{Client: client, Group: "billing", Topics: []string{"orders"}},
//		consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error { … }))
//	err = c.Run(ctx)
//
// # What waits while a message does
//
// A failed message waits before its next attempt, and Policy.Mode says what waits with it. With Tiers nothing does: the
// message goes to a retry topic of its group, RetryTopic(topic, group, delay), which the same Consumer reads. With
// Ordered the later messages of its key wait, with Blocking its partition waits. A message with a permanent error is
// given up at once, a message with any other error after the last of Policy.Delays.
//
// Delays and Mode may be changed. If the retry topic of a former delay exists when Run begins, and the client may list
// topics, the consumer goes on reading it, so that the messages in it are handled; delete the topic when it is empty.
// The retry topic without a delay, which dead letters name, is always read.
//
// The times in retry topics come from the clocks of the members that write and read them. A message is never early by
// the clock of its reader. If the clocks differ, it is early or late by the difference.
//
// # Around the handler
//
// A message passes, from the outside in:
//
//  1. the circuit breaker, which lets nothing through while too much of the topic would be given up (Breaker);
//  2. the recovery of panics, which become a PanicError;
//  3. the context with the message's deadline (Policy.HandleTimeout);
//  4. Config.Middleware, the first outermost;
//  5. the Handler.
//
// So middleware sees each attempt, may change the error's class with Permanent and Transient, and may panic. The
// outermost mark of the returned error decides its class, then Config.Classify; otherwise the error is transient.
// PermanentAs says, besides, what the dead letter asks of people (message.Category).
//
// # Copies
//
// A message may be handled more than once: after a crash, after a rebalance that did not wait for its handler, and
// after a written record whose acknowledgement was lost. All copies have the same EventID, ReplayID and Origin; a
// handler that must not act twice remembers them.
//
// # Rebalances and the end
//
// Partitions change hands one at a time (cooperative rebalances). Before a partition is given away, the consumer starts
// no new message of it, lets the running handlers end and commits, within Config.RevokeTimeout. When the context of Run
// ends, Run does the same with all partitions, within Config.StopTimeout. If a message waits in memory for its next
// attempt, the next member begins with its first attempt again. With Ordered and with Config.Concurrency the next
// member also handles again the later messages of the partition that are done already, up to Config.MaxAhead of them:
// the offset does not pass the message that waits.
package consumer
