#!/usr/bin/env bash
# Runs the tests of every package that needs no server: its test program cannot start PostgreSQL or Kafka, because it
# does not contain what starts them, and it compiles no commands. So a new package is here or not by what it imports.
set -euo pipefail
cd "$(dirname "$0")/.."

starts='internal/(pgserver|testenv/kafkajars|testenv/buildtest)( |$)'
tests=$(go list -test -f '{{.ImportPath}}{{"\t"}}{{join .Deps " "}}' ./... | grep -E '^[^[:space:]]+\.test	')
pure=$(grep -vE "$starts" <<<"$tests" | cut -f1 | sed 's/\.test$//')
go test $pure
echo "quick: the tests of $(wc -w <<<"$pure") packages passed; the $(grep -cE "$starts" <<<"$tests") that start servers are for make test"
