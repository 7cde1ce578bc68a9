// Package java tests the example in Java: programs that write events with JDBC, Spring and Hibernate, and one that consumes
// them, with retry topics and an inbox. It has no Go code of its own.
package java
