package dlq

import "strings"

// libraries begin the names of classes that are not a program's own: languages, frameworks, drivers and clients.
var libraries = []string{
	// Java and its languages.
	"java.", "javax.", "jakarta.", "jdk.", "sun.", "com.sun.", "kotlin.", "kotlinx.", "scala.", "groovy.", "lombok.",
	"org.springframework.", "org.apache.", "org.hibernate.", "org.postgresql.", "org.mariadb.", "org.h2.", "org.jooq.", "org.eclipse.",
	"org.jboss.", "org.elasticsearch.", "org.opensearch.", "org.slf4j.", "org.json.", "org.aspectj.", "org.mockito.", "org.flywaydb.",
	"com.mysql.", "oracle.", "com.microsoft.", "com.zaxxer.", "com.fasterxml.", "com.google.", "com.mongodb.", "com.amazonaws.",
	"com.squareup.", "com.netflix.", "com.rabbitmq.", "co.elastic.", "software.amazon.", "net.bytebuddy.", "net.snowflake.",
	"io.netty.", "io.smallrye.", "io.quarkus.", "io.micronaut.", "io.micrometer.", "io.vertx.", "io.grpc.", "io.confluent.", "io.debezium.",
	"io.lettuce.", "io.opentelemetry.", "io.reactivex.", "io.projectreactor.", "io.aiven.", "io.lenses.", "reactor.", "okhttp3.",
	"retrofit2.", "feign.", "redis.", "ch.qos.", "tools.jackson.",
	// .NET.
	"System.", "Microsoft.", "Confluent.", "Npgsql.", "MySql.", "MySqlConnector.", "Newtonsoft.", "Polly.", "MassTransit.", "Wolverine.",
	"Dapper.", "Grpc.", "MediatR.", "NHibernate.", "Google.", "Amazon.",
}

// inLibrary reports whether a class or method is not of the program itself.
func inLibrary(name string) bool { return hasPrefixOf(name, libraries) }

// wrappers begin the names of exceptions that only say where another one was met.
var wrappers = []string{
	// Kafka Connect, Kafka Streams and the clients; Spring with its modules; SmallRye and Quarkus; what they hand to a database.
	"org.apache.kafka.", "org.springframework.", "io.smallrye.", "io.quarkus.", "io.confluent.", "org.hibernate.", "jakarta.persistence.",
	"javax.persistence.", "jakarta.ejb.", "javax.ejb.", "org.apache.camel.",
	// Java's own for what another thread or a reflected call threw.
	"java.lang.reflect.InvocationTargetException", "java.lang.reflect.UndeclaredThrowableException", "java.util.concurrent.ExecutionException",
	"java.util.concurrent.CompletionException", "java.io.UncheckedIOException", "java.lang.ExceptionInInitializerError", "java.security.PrivilegedActionException",
	// .NET.
	"System.AggregateException", "System.Reflection.TargetInvocationException", "System.TypeInitializationException", "System.Net.Http.HttpRequestException",
	"Microsoft.EntityFrameworkCore.", "Confluent.Kafka.", "MassTransit.", "Wolverine.",
	// Python.
	"sqlalchemy.exc.", "confluent_kafka.", "aiokafka.", "faust.",
}

// wraps reports whether an exception of this class says nothing of its own if it has a cause.
func wraps(class string) bool { return hasPrefixOf(class, wrappers) }

func hasPrefixOf(name string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
