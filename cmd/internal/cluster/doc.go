// Package cluster says what the brokers know of the topics that Postrider uses, and of the consumer groups that read them.
package cluster
