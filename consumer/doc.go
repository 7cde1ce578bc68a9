// Package consumer reads Kafka topics as a member of a consumer group, and sees to it that every message ends: it is
// handled, or tried again later and handled then, or given up and written to a dead-letter topic with its bytes, its
// origin and the reason. The offset of a message is committed only when one of that has happened; while neither can,
// its partition stands and says so.
//
//	client, err := kafka.NewClient(kafka.Config{Brokers: brokers})
//	c, err := consumer.New(consumer.Config{Client: client, Group: "billing", Topics: []string{"orders"}},
//		consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error { … }))
//	err = c.Run(ctx)
//
// # What waits while a message does
//
// A failed message waits before it is tried again; Policy.Mode says what waits with it. With Tiers nothing does: the
// message goes to a retry topic of its group, RetryTopic(topic, group, delay), which the same Consumer reads. With
// Ordered its key waits, with Blocking its partition. Permanent errors are given up at once, all others after the
// last of Policy.Delays.
//
// Delays and Mode may be changed. Tiers that exist when Run begins and that the policy no longer has are read on, where the
// client may list them, so that what waits in them is handled; delete them when they are empty. The retry topic without a
// delay, which dead letters name, is always read.
//
// Times in retry topics are told by the clocks of the members that write and read them: a message is never early by the
// clock of its reader, and clocks that differ make it early or late by as much.
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
// So middleware sees each attempt, may change the error's class with Permanent and Transient, and may panic. What it
// returns is classified: the outermost mark counts, then Config.Classify, then transient.
//
// # Copies
//
// A message may be handled more than once: after a crash, after a rebalance that did not wait for its handler, and
// after a record whose acknowledgement was lost. All copies have the same EventID, ReplayID and Origin; a handler that
// must not act twice remembers them.
//
// # Rebalances and the end
//
// Partitions change hands one at a time (cooperative rebalances). One that is taken away takes nothing new up, ends what
// it began and commits, within Config.RevokeTimeout. Run does the same with all when its context ends, within
// Config.StopTimeout. What waits for its next attempt in memory begins anew elsewhere, from its first attempt.
// With Ordered and with Config.Concurrency what is behind it in its partition and done already is handled again there,
// too, up to Config.MaxAhead messages: the offset does not pass the one that waits.
package consumer
