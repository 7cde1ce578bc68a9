#!/usr/bin/env bash
# Runs every test against one PostgreSQL and one Kafka broker, prints which, and holds the domain
# packages to their coverage.
set -uo pipefail
cd "$(dirname "$0")/.."

race=""
if [ "$(go env CGO_ENABLED)" = 1 ] && { command -v gcc || command -v clang || command -v cc; } >/dev/null 2>&1; then
	race="-race"
fi
mkdir -p coverage
log=coverage/test.log
export POSTRIDER_TEST_LEFT_OUT="$PWD/coverage/not-tested.txt" # internal/testenv/logtest
: >"$POSTRIDER_TEST_LEFT_OUT"
# Programs and their outsides have little concurrency of their own. The rooms that have it run under the race detector, which
# takes five times the processor.
plain='cmd/postrider$|cmd/internal/(bench|cli|doctor|monitoring|packaging|interop|e2e)(/|$)|examples/'
packages=$(go list ./...) || exit 1
covered="message retry outbox internal/relay internal/tasks/task internal/dlq" # the domain; a coverage of the other rooms is not looked at, and costs a tenth of the time
export domain="$race $(for p in $covered; do printf './%s ' "$p"; done)"
rest=$(grep -Ev "$plain" <<<"$packages" | grep -vE "postrider/($(tr ' ' '|' <<<"$covered"))\$")
export raced="$race ./internal/relay/relaytest ./cmd/internal/app ./cmd/internal/soak $(xargs <<<"$rest")" # the longest first
export unraced="$(grep -E "$plain" <<<"$packages" | xargs)"
# Twice as many tests at once as cores, because many wait for timeouts.
export options="-count=1 -timeout 20m -parallel $((2 * $(getconf _NPROCESSORS_ONLN)))"
go run ./cmd/internal/testrig -- bash -c 'trap "exit 130" INT TERM
	go test $options $raced; first=$?
	go test $options -cover $domain; second=$?
	go test $options $unraced && [ $first -eq 0 ] && [ $second -eq 0 ]' 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

failed=""
for p in $covered; do
	percent=$(awk -v p="github.com/postrider/postrider/$p" '$1 == "ok" && $2 == p { for (i = 3; i < NF; i++) if ($i == "coverage:") print $(i + 1) }' "$log" | tr -d '%')
	echo "coverage: $p ${percent:-unknown}% (at least 95)"
	awk -v c="${percent:-0}" 'BEGIN { exit !(c >= 95) }' || failed="$failed $p"
done
if [ -s "$POSTRIDER_TEST_LEFT_OUT" ]; then
	echo "test: NOT TESTED on this machine:"
	sort -u "$POSTRIDER_TEST_LEFT_OUT"
else
	echo "test: nothing was left out"
fi
if [ "$status" -ne 0 ]; then
	echo "test: failed; the whole output is in $log"
	exit "$status"
fi
if [ -n "$failed" ]; then
	echo "test: coverage is below 95 % in:$failed"
	exit 1
fi
echo "test: ok"
