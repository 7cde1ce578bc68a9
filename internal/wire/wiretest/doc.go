// Package wiretest compares internal/wire with Debezium's event router and Kafka's converters, which run from their jars:
// tests only. testdata/Router.java sends rows through them.
package wiretest
