// Package interop has letters written by the real programs of others, Kafka Connect, Kafka Streams and Spring Kafka, and
// looks at the investigations that they become. There is nothing in it but tests: they need Java 17, Maven and a real broker.
package interop
