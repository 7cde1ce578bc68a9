# Two commands do everything on a fresh machine with Go: `make run` and `make test`.
# See README.md; `make help` lists the rest.

BIN        := bin/postrider
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.3.0
SOAK_SECONDS ?= 300
IMAGE ?= postrider

.DEFAULT_GOAL := help
.PHONY: help build run test quick verify versions soak bench chart image release release-check vuln sbom clean setup

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 15

build: ## build bin/postrider
	go build -trimpath -o $(BIN) ./cmd/postrider

run: build ## the whole system in one process, with a demo order service; Ctrl-C stops it
	@exec $(BIN) dev --demo $(ARGS)

setup: ## what the tests need: root on Debian installs packages, unless POSTRIDER_INSTALL=no
	@scripts/setup.sh postgres kafka compiler clients pooler python monitoring node browser packages interop chart release

test: setup ## every test, on real PostgreSQL, kfake and a real Apache Kafka broker
	@scripts/test.sh

quick: ## the tests of packages that need no server, without the race detector: under a minute once it is compiled
	@scripts/quick.sh

verify: ## formatting, vet, linter, import directions
	@out="$$(gofmt -l $$(git ls-files '*.go'))"; if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...
	go test -count=1 ./cmd/internal/archtest
	@echo "verify: ok"

versions: ## the tests of SQL on PostgreSQL 14, 16, 17 and 18, and of brokers on Kafka 3.6 and 4.4; VERSIONS and BROKERS choose others
	@scripts/versions.sh

soak: setup ## the crash, two-relay, mixed-fault and rebalance runs for SOAK_SECONDS each (default 300), on the real broker too; PAGE=docs/faults.md renews its figures
	SOAK_SECONDS=$(SOAK_SECONDS) SOAK_PAGE=$(abspath $(PAGE)) go run ./cmd/internal/testrig -- \
		go test $(if $(shell command -v gcc || command -v clang || command -v cc),-race) -count=1 -v -timeout $$(($(SOAK_SECONDS) * 10 + 1800))s -parallel 1 \
		-run 'TestKilledAtEveryStep|TestServeKilled|TestTwoRelays|TestNemesis|TestSourcesUnderFaults|TestSourcesRestarted|TestSourcesKilled|TestConsumerChurn|TestConsumerOutages|TestFromDebezium' ./cmd/internal/soak

bench: setup ## the figures of BENCHMARKS.md; ARGS selects, such as ARGS="-quick -scenario drain"
	go run ./cmd/internal/bench $(ARGS)

chart: ## renew the Helm chart's copies of alerts and dashboards, and pack it into bin
	cp deploy/prometheus/postrider.rules.yml deploy/helm/postrider/files/
	@mkdir -p deploy/helm/postrider/files/dashboards
	cp deploy/grafana/dashboards/*.json deploy/helm/postrider/files/dashboards/
	@mkdir -p bin
	cd deploy/helm/check && go tool helm package ../postrider --destination ../../../bin

image: ## build the image $(IMAGE) with Docker; VERSION= is what it calls itself
	docker build -f deploy/Dockerfile --build-arg VERSION=$(VERSION) -t $(IMAGE) .

release: ## what a version is given out as, of the tag of this commit: dist
	cd deploy/release && go run . -source ../.. -out ../../dist

release-check: ## a release of this commit twice, in two folders: the same bytes
	@scripts/release-check.sh

vuln: build ## known weaknesses that our code can reach, from the Go vulnerability database
	@GOBIN="$(CURDIR)/bin" go install $(GOVULNCHECK) || { echo "vuln: NOTHING WAS CHECKED: govulncheck could not be fetched or built; it needs a Go module proxy once"; exit 1; }
	@bin/govulncheck $(if $(VULNDB),-db "$(VULNDB)") ./... || { code=$$?; [ $$code = 3 ] || \
		echo "vuln: NOTHING WAS CHECKED: govulncheck could not; it needs https://vuln.go.dev, or a copy of it: make vuln VULNDB=file:///…"; exit $$code; }

sbom: build ## what is in the binary: bin/postrider.cdx.json, in CycloneDX
	@rm -f $(BIN).cdx.json
	go run ./cmd/internal/sbom $(BIN) > $(BIN).cdx.json.part
	@mv $(BIN).cdx.json.part $(BIN).cdx.json

clean: ## remove what was built
	rm -rf bin coverage dist
