#!/usr/bin/env bash
# Runs every test against one PostgreSQL and one Kafka broker, prints which, and holds the domain packages to their
# coverage. What this machine lacks is left out, counted and named at the end; with POSTRIDER_TEST_REQUIRE_ALL=1 it is a
# failure (internal/testenv/logtest).
set -uo pipefail
cd "$(dirname "$0")/.."

rm -rf coverage/bin
mkdir -p coverage/bin
log=coverage/test.log
export POSTRIDER_TEST_LEFT_OUT="$PWD/coverage/not-tested.txt" # internal/testenv/logtest
export POSTRIDER_TEST_BINARIES="$PWD/coverage/bin"            # internal/testenv/buildtest
: >"$POSTRIDER_TEST_LEFT_OUT"
require_all=${POSTRIDER_TEST_REQUIRE_ALL:-0}

race=""
if [ "$(go env CGO_ENABLED)" = 1 ] && { command -v gcc || command -v clang || command -v cc; } >/dev/null 2>&1; then
	race="-race"
	# A process that ends waits a second for reports of other threads. By then a test's goroutines are gone.
	export GORACE="atexit_sleep_ms=10 ${GORACE:-}"
else
	echo "all tests: the race detector: there is no C compiler; install gcc" >>"$POSTRIDER_TEST_LEFT_OUT"
	if [ "$require_all" != 0 ]; then
		echo "test: POSTRIDER_TEST_REQUIRE_ALL is set, and there is no C compiler for the race detector"
		exit 1
	fi
fi

# A package that has goroutines, channels, locks or atomic values runs under the race detector, which takes five times the
# processor; so do the runs of the relay as a whole, and replay, whose client calls it from goroutines. The others cannot race.
# Of some the tests that reach what runs side by side are under it (partly), and all run without it. The domain runs twice: for its
# coverage without it, and with it where each rapid test makes fewer checks (model). Not under it, though they have some: programs
# and their tests from outside, and the broker's processes that tests start (plain), which have little; the soaks are in
# `make soak`, and what they run is in internal/relay/relaytest and cmd/internal/app as well.
plain='cmd/postrider$|cmd/internal/(archtest|bench|cli|doctor|monitoring|packaging|interop|e2e|soak)(/|$)|examples/|internal/(migrations|testenv/kafkajars)$'
partly="cmd/internal/console=Silent|Hears|ALivePage|AnOpenPage|TwoPeople|ASession|TheDatabase
cmd/internal/httpapi=Limits|Limited|Idempotency|IsShared|WhoAsked|WhoWaits|WhoWaited|KeepsNobody|AskedOnce|Readiness|Stop|SlowRequests|GoesAway
internal/dlq/postgres=Command|Together|Redrive|Operation|Follow|Deadlock|TwoOperators|LetGo|WhatASource|WaitingForASource|EveryDeath|Overtaken|AtOnce|TakesIt|WhileRecording|SameGroups|WaitsFor"
packages=$(go list ./...) || exit 1
covered="message retry outbox internal/relay internal/tasks/task internal/dlq" # the domain; a coverage of the other rooms is not looked at, and costs a tenth of the time
others=$(grep -vE "postrider/($(tr ' ' '|' <<<"$covered"))\$" <<<"$packages")
rest=$(for p in $(grep -Ev "$plain" <<<"$others"); do
	dir=${p#github.com/postrider/postrider/}
	grep -q "^$dir=" <<<"$partly" && continue
	if ls "./$dir"/*.go | grep -v '_test\.go$' | xargs -r grep -qE '\bgo (func|[a-zA-Z.]+\()|\.Go\(|\bchan |\b(sync|atomic)\.' ||
		[[ $dir =~ relaytest|internal/replay/kafka ]]; then echo "$p"; fi
done)
# The longest first, so that none is left to run alone in the end.
longest="internal/relay/relaytest cmd/internal/app internal/relay/postgres internal/relay/kafka"
longest_plain="cmd/internal/console cmd/internal/bench cmd/internal/soak internal/dlq/postgres cmd/internal/httpapi internal/tasks/postgres cmd/internal/adopt cmd/internal/monitoring cmd/internal/packaging examples/java examples/orders cmd/internal/e2e"
here() { printf './%s ' "$@"; }
export domain="$(here $covered)"
export raced="$race $(here $longest) $(xargs <<<"$rest")"
export model="./internal/relay ./internal/dlq -rapid.checks=20"
export partly race
export unraced="$(here $longest_plain) $(grep -vxF "$rest" <<<"$others" | xargs)"
# Twice as many tests at once as cores, because many wait for timeouts; and a package more than cores, with the one beside them.
# `make verify` vets; what a debugger needs (-w leaves it out) is a third of linking.
cores=$(getconf _NPROCESSORS_ONLN)
export options="-count=1 -timeout 20m -vet=off -ldflags=-w -parallel $((2 * cores))"
export cores
# Compiled first: the tests wait for real clocks, and a compiler beside them takes both cores for minutes.
go list -export -test -deps $(xargs <<<"$raced ./internal/relay ./internal/dlq $(sed 's|^|./|; s|=.*||' <<<"$partly")") >/dev/null && go list -export -test -deps $(xargs <<<"$unraced $domain") >/dev/null || exit 1
# One half after the other: both at once made each wait for the other, and took longer. The model has one long package, which leaves
# a core free: it runs beside the second half with what is partly under the detector and the coverage, and is printed after it.
go run ./cmd/internal/testrig -- bash -c 'trap "exit 130" INT TERM
	go test $options -p $((cores + 1)) $raced; first=$?
	{
		third=0
		if [ -n "$race" ]; then
			go test $options -p 1 $race $model || third=1
			while IFS== read -r dir tests; do go test $options $race -run "$tests" "./$dir" </dev/null || third=1; done <<<"$partly"
		fi
		go test $options -p 1 -cover $domain || third=1
		exit $third
	} >coverage/domain.log 2>&1 &
	go test $options -p $cores $unraced; second=$?
	wait $!; third=$?
	cat coverage/domain.log
	[ $first -eq 0 ] && [ $second -eq 0 ] && [ $third -eq 0 ]' 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

if grep -q 'no tests to run' "$log"; then
	echo "test: a pattern of tests above matches none; put it right in scripts/test.sh"
	exit 1
fi
failed=""
for p in $covered; do
	percent=$(awk -v p="github.com/postrider/postrider/$p" '$1 == "ok" && $2 == p { for (i = 3; i < NF; i++) if ($i == "coverage:") print $(i + 1) }' "$log" | tr -d '%')
	echo "coverage: $p ${percent:-unknown}% (at least 95)"
	awk -v c="${percent:-0}" 'BEGIN { exit !(c >= 95) }' || failed="$failed $p"
done
if [ -s "$POSTRIDER_TEST_LEFT_OUT" ]; then
	echo "test: NOT TESTED on this machine, by what it lacks:"
	sort -u "$POSTRIDER_TEST_LEFT_OUT" | awk -F': ' '
		{ why = substr($0, length($1) + 3); tests[why] = tests[why] " " $1; n[why]++; all++ }
		END { for (why in n) printf "  %s\n    %d:%s\n", why, n[why], tests[why]; printf "test: %d tests were left out or shortened\n", all }'
else
	echo "test: nothing was left out"
fi
if [ "$status" -ne 0 ]; then
	silent=$(comm -23 <(sort <<<"$packages") <(awk '$1 == "ok" || $1 == "FAIL" || $1 == "?" { print $2 }' "$log" | sort -u) | xargs)
	if [ -n "$silent" ]; then
		echo "test: failed, and nothing was heard of $silent; the whole output is in $log"
		exit "$status"
	fi
fi
if [ "$status" -ne 0 ] && ! DOMAIN=$(printf 'github.com/postrider/postrider/%s ' $covered) scripts/again.sh "$log" $race $options; then
	echo "test: failed; the whole output is in $log"
	exit "$status"
fi
if [ -n "$failed" ]; then
	echo "test: coverage is below 95 % in:$failed"
	exit 1
fi
echo "test: ok"
