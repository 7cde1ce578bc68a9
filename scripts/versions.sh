#!/usr/bin/env bash
# Runs the tests of everything that has SQL on other versions of PostgreSQL, and those of everything that talks to brokers on the
# oldest and the newest Apache Kafka that we name. Maven fetches them once; VERSIONS and BROKERS choose, "none" is none.
set -euo pipefail
cd "$(dirname "$0")/.."

case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64v8 ;; *) echo "versions: there are no binaries for $(uname -m)"; exit 1 ;; esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}
[ "$(id -u)" = 0 ] && cache=/var/cache # PostgreSQL does not run as root, and root's own folders are closed to others
packages="./internal/migrations ./internal/relay/postgres ./internal/dlq/postgres ./internal/tasks/... ./cmd/internal/access ./cmd/internal/actions
	./cmd/internal/httpapi ./cmd/internal/doctor ./cmd/internal/adopt ./outbox ./outboxsync ./consumer/inbox"

brokers="./internal/relay/kafka ./internal/relay/relaytest ./internal/dlq/kafka ./internal/replay/kafka ./consumer/kafka ./cmd/internal/doctor
	./cmd/internal/debezium/check"

failed=""
for version in ${VERSIONS:-14.24.0 16.15.0 17.11.0 18.6.0}; do
	[ "$version" = none ] && continue
	into=$cache/postrider/postgresql-$version-linux-$arch
	if [ ! -x "$into/bin/postgres" ]; then
		name=embedded-postgres-binaries-linux-$arch
		mvn -q -B dependency:copy -Dartifact="io.zonky.test.postgres:$name:$version" -DoutputDirectory="$into.part"
		python3 -c 'import io, sys, tarfile, zipfile
jar, into = zipfile.ZipFile(sys.argv[1]), sys.argv[2]
inner = next(n for n in jar.namelist() if n.endswith(".txz"))
tarfile.open(fileobj=io.BytesIO(jar.read(inner)), mode="r:xz").extractall(into)' "$into.part/$name-$version.jar" "$into.part"
		rm "$into.part/$name-$version.jar"
		chmod -R a+rX "$into.part"
		rm -rf "$into"
		mv "$into.part" "$into"
	fi
	echo "versions: $("$into/bin/postgres" --version)"
	POSTRIDER_POSTGRES_BIN=$into/bin go run ./cmd/internal/testrig -- go test -count=1 -timeout 20m -vet=off $packages || failed="$failed $version"
done
for version in ${BROKERS:-3.6.2 4.4.0}; do
	[ "$version" = none ] && continue
	echo "versions: Apache Kafka $version"
	POSTRIDER_TEST_KAFKA_VERSION=$version POSTRIDER_TEST_KAFKA_KIND=jars go run ./cmd/internal/testrig -- \
		go test -count=1 -timeout 20m -vet=off $brokers || failed="$failed Kafka-$version"
done
if [ -n "$failed" ]; then
	echo "versions: failed on$failed"
	exit 1
fi
echo "versions: ok"
