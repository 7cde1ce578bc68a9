#!/usr/bin/env bash
# again.sh LOG OPTIONS: decides about the red tests of a whole run, whose output is LOG. Tests wait for real clocks, on a
# machine that they share; at most three that were red beside the others are run again alone, and stay red unless they
# are green three times in a row. They are named. What no busy machine excuses is red at once: a wrong history, a data
# race, a panic, a package that did not build or end, a test of the domain.
set -uo pipefail
cd "$(dirname "$0")/.."
log=$1
shift

if grep -qE 'the history is wrong:|WARNING: DATA RACE|^panic:|^FAIL.*\[(build|setup) failed\]' "$log"; then
	echo "again: no: a wrong history, a data race, a panic or a package that was not built is not a matter of time"
	exit 1
fi
# A package's red tests come before its own line, and a bare FAIL before that if it ended by itself.
red=$(awk '/^--- FAIL: / { tests[++n] = $3 } $0 == "FAIL" { ended = 1 }
	/^FAIL\t/ { if (!n || !ended) print $2, "-"; while (n) print $2, tests[n--]; ended = 0 }' "$log")
echo "again: red beside the others:" $red
if [ -z "$red" ] || [ "$(wc -l <<<"$red")" -gt 3 ] || grep -qE ' -$' <<<"$red"; then
	echo "again: no: only up to three red tests of packages that ended are run again"
	exit 1
fi
while read -r package name; do
	if grep -qE " $package( |\$)" <<<" $DOMAIN"; then
		echo "again: no: $package is the domain, which waits for nothing"
		exit 1
	fi
	go run ./cmd/internal/testrig -- go test "$@" -count=3 -failfast -run "^$name\$" "$package" </dev/null || exit 1
done <<<"$red"
echo "again: UNSTEADY: red beside the others, green three times alone; the first output is in $log:" $red
