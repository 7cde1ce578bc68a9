#!/usr/bin/env bash
# Gets what the given parts of the tests need: postgres, kafka, compiler, clients, pooler, python, monitoring, node, browser,
# packages from packages; interop, chart and release from Maven's and Go's registries. Root on Debian has packages installed, after a line that
# names them; with POSTRIDER_INSTALL=no nothing is. A part that is missing in the end is no failure: the tests that need
# it are left out, and `make test` counts and names them. Nothing that this does is needed twice.
set -u
cd "$(dirname "$0")/.." || exit 1

have() { command -v "$1" >/dev/null 2>&1; }

# there tells whether this machine has what a part needs.
there() {
	case $1 in
	postgres)
		[ -n "${POSTRIDER_TEST_DATABASE_URL:-}" ] || [ -n "${POSTRIDER_POSTGRES_BIN:-}" ] || have initdb ||
			compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || compgen -G '/usr/pgsql-*/bin/initdb' >/dev/null ||
			compgen -G '/opt/homebrew/opt/postgresql@*/bin/initdb' >/dev/null || compgen -G '/usr/local/opt/postgresql@*/bin/initdb' >/dev/null
		;;
	kafka) [ -n "${POSTRIDER_TEST_KAFKA_BROKERS:-}" ] || { have java && have mvn; } ;;
	compiler) have gcc || have clang || have cc ;;
	clients) have kcat ;;
	pooler) have pgbouncer || [ -x /usr/sbin/pgbouncer ] ;; # where Debian keeps daemons, outside of many a PATH
	python) have python3 && python3 -c 'import venv, ensurepip' 2>/dev/null ;;
	monitoring) have prometheus && have promtool ;;
	node) have node && have npm ;;
	browser) have chromium || have chromium-browser || have google-chrome ;;
	packages) have rpm ;;
	esac
}

# packages names a part's packages of Debian.
packages() {
	case $1 in
	postgres) echo postgresql ;;
	kafka) echo default-jdk-headless maven ;;
	compiler) echo gcc libc6-dev ;;
	clients) echo kcat ;;
	pooler) echo pgbouncer ;;
	python) echo python3 python3-venv ;;
	monitoring) echo prometheus ;;
	node) echo nodejs npm ;;
	browser) echo chromium ;;
	packages) echo rpm ;;
	esac
}

# without says what becomes of the tests where a part is missing.
without() {
	case $1 in
	postgres) echo "no PostgreSQL: its server is fetched once, about 15 MB, and the tests with psql are left out" ;;
	kafka) echo "no Java 17 and Maven: unless Docker answers, tests with a real Kafka broker are left out" ;;
	compiler) echo "no C compiler: the tests run without the race detector" ;;
	clients) echo "no kcat: topics are read with our own client only" ;;
	pooler) echo "no PgBouncer: the tests behind one are left out" ;;
	python) echo "no Python 3 with its venv module: the Python example is not tested" ;;
	monitoring) echo "no Prometheus with promtool: the tests of alerts and dashboards are left out" ;;
	packages) echo "no rpm: the packages of a release are not installed" ;;
	browser) echo "no Chromium: the pages of the web console are tested without a browser" ;;
	node) echo "no Node.js with npm: the tests with a client in TypeScript, and with an OpenID provider, are left out, and axe-core does not look at the web console" ;;
	esac
}

# install installs packages, all at once or each for itself: one that a distribution lacks takes none with it.
install() {
	echo "setup: installing as root: $* (POSTRIDER_INSTALL=no leaves the machine as it is)"
	apt-get update -qq >/dev/null 2>&1 || true
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return
	for package in "$@"; do
		apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 || echo "setup: apt-get cannot install $package"
	done
}

# interop has Maven fetch the jars of Kafka Connect, Kafka Streams and Spring Kafka, whose letters are read, and those of the
# example in Java; the first time takes minutes.
interop() {
	have java && have mvn || return
	for pom in cmd/internal/interop/testdata/*/pom.xml examples/java/pom.xml; do
		stamp="${XDG_CACHE_HOME:-$HOME/.cache}/postrider/interop-$(cksum <"$pom" | tr -d ' ')"
		[ -e "$stamp" ] && continue
		echo "setup: downloading the jars of $pom"
		if mvn -q -B -f "$pom" -Dmdep.outputFile=/dev/null dependency:build-classpath >/dev/null 2>&1; then
			mkdir -p "$(dirname "$stamp")" && : >"$stamp"
		else
			echo "setup: Maven cannot download them: the tests that need them are left out"
		fi
	done
}

# chart has Go fetch and build Helm, and the tests of the chart; the first time takes minutes.
chart() {
	(cd deploy/helm/check && go tool -n helm && go test -run '^$' .) >/dev/null 2>&1 && return
	echo "setup: deploy/helm/check cannot be fetched or built: the tests of the Helm chart are left out"
}

# release has Go fetch and build what makes releases; the first time takes a minute.
release() {
	(cd deploy/release && go build -o /dev/null .) >/dev/null 2>&1 && return
	echo "setup: deploy/release cannot be fetched or built: the tests of releases are left out"
}

parts="" downloads="" missing=""
for part in "$@"; do
	case $part in
	interop | chart | release) downloads="$downloads $part" ;;
	*)
		parts="$parts $part"
		there "$part" || missing="$missing $(packages "$part")"
		;;
	esac
done
if [ -n "$missing" ] && [ "${POSTRIDER_INSTALL:-yes}" != no ] && have apt-get && [ "$(id -u)" = 0 ]; then
	install $missing
fi
for part in $parts; do
	there "$part" || echo "setup: $(without "$part") (Debian: $(packages "$part"))"
done
for part in $downloads; do
	"$part"
done
