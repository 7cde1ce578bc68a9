// Package message is what a record of Postrider's says beside its key and value: the headers, how they stand in the
// database, the category of an error, and which names a topic can have. Writers, the relay, consumers and tools for
// dead letters share it. It needs no database and no broker.
package message
