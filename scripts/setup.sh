#!/usr/bin/env bash
# Makes sure that what the given parts need is there: postgres, kafka, compiler, clients, pooler, interop, python,
# monitoring, chart. It installs Debian packages where it may, and otherwise says what to do. Nothing it does is needed twice.
set -u

have() { command -v "$1" >/dev/null 2>&1; }

may_install() { have apt-get && [ "$(id -u)" = 0 ]; }

updated=""
install() {
	if [ -z "$updated" ]; then
		apt-get update -qq >/dev/null 2>&1 || true
		updated=yes
	fi
	echo "setup: installing $*"
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1
}

postgres() {
	if [ -n "${POSTRIDER_TEST_DATABASE_URL:-}" ] || [ -n "${POSTRIDER_POSTGRES_BIN:-}" ] || have initdb ||
		compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || compgen -G '/usr/pgsql-*/bin/initdb' >/dev/null ||
		compgen -G '/opt/homebrew/opt/postgresql@*/bin/initdb' >/dev/null || compgen -G '/usr/local/opt/postgresql@*/bin/initdb' >/dev/null; then
		return
	fi
	if may_install && install postgresql; then
		return
	fi
	echo "setup: no PostgreSQL binaries found; they will be downloaded on first use. To use your own, install PostgreSQL 14 or newer, or set POSTRIDER_POSTGRES_BIN to the folder with initdb and postgres."
}

kafka() {
	if [ -n "${POSTRIDER_TEST_KAFKA_BROKERS:-}" ] || { have java && have mvn; }; then
		return
	fi
	if may_install && install default-jdk-headless maven; then
		return
	fi
	echo "setup: no Java 17 and Maven: unless Docker answers or POSTRIDER_TEST_KAFKA_BROKERS names a broker, the tests run on the in-process broker only."
}

compiler() {
	# The race detector needs a C compiler.
	if have gcc || have clang || have cc; then
		return
	fi
	may_install && install gcc libc6-dev && return
	echo "setup: no C compiler: the tests run without the race detector."
}

clients() {
	# Kafka's and PostgreSQL's usual clients, for the test that uses no code of ours.
	have kcat && return
	may_install && install kcat && return
	echo "setup: no kcat: topics are read with the project's own client only."
}

pooler() {
	# Debian keeps daemons in /usr/sbin, which is not in everybody's PATH.
	have pgbouncer || [ -x /usr/sbin/pgbouncer ] && return
	may_install && install pgbouncer && return
	echo "setup: no PgBouncer: the tests that need it will fail; install the package pgbouncer."
}

interop() {
	# The jars of Kafka Connect and Spring Kafka, whose letters are read; the first time takes minutes.
	have java && have mvn || return
	for project in connect spring; do
		pom="cmd/internal/interop/testdata/$project/pom.xml"
		stamp="${XDG_CACHE_HOME:-$HOME/.cache}/postrider/interop-$project-$(cksum <"$pom" | tr -d ' ')"
		[ -e "$stamp" ] && continue
		echo "setup: downloading the jars of $pom"
		if mvn -q -B -f "$pom" -Dmdep.outputFile=/dev/null dependency:build-classpath >/dev/null 2>&1; then
			mkdir -p "$(dirname "$stamp")" && : >"$stamp"
		else
			echo "setup: Maven cannot download them: the tests of cmd/internal/interop will say so."
		fi
	done
}

python() {
	# The example for other languages makes a virtual environment on first use.
	have python3 && python3 -c 'import venv, ensurepip' 2>/dev/null && return
	may_install && install python3 python3-venv && return
	echo "setup: no Python 3 with its venv module: the Python example is not tested."
}

monitoring() {
	# Prometheus and its promtool, for the tests of alerts and dashboards.
	have prometheus && have promtool && return
	may_install && install prometheus && return
	echo "setup: no Prometheus: the tests of alerts and dashboards will fail; install the package prometheus, which has promtool too."
}

chart() {
	# Helm, from the Go module proxy, built into Go's cache; the first time takes minutes.
	(cd deploy/helm/check && go tool -n helm && go test -run '^$' .) >/dev/null 2>&1 && return
	echo "setup: deploy/helm/check cannot be fetched or built: cmd/internal/packaging will fail, and say why."
}

cd "$(dirname "$0")/.." || exit 1
for part in "$@"; do
	"$part"
done
