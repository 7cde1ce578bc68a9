package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options say what to measure. Every field is a flag; see parse for what it means.
type options struct {
	scenarios, brokers                     []string
	runs, events, keys, payload            int
	warm                                   int
	sides                                  []string
	postrider                              []map[string]string
	everySide                              bool
	postgresDir, kafkaDir                  string
	inserts, insertRounds                  int
	takeovers                              int
	takeoverCalm                           time.Duration
	hotEvents, burstEvents                 int
	duration, slowDuration, idleDuration   time.Duration
	rate, slowRate, clients                int
	flatWarm, flatWindow                   int
	flatPending, flatPublished, flatParked int
	faultsEvents                           int
	peerEvents                             int
	peerLimit                              time.Duration
	peersBinary                            string
	hourDuration                           time.Duration
	hourRate                               int
	staleHealthy                           []int
	staleTasks, staleDetectors             int
	archivePause                           time.Duration
	archiveTasks, viewTasks                int
	redriveEntries, redriveRated           int
	apiEntries, apiRate, apiAsks           int
	apiDuration                            time.Duration
	consoleTasks, consoleRate, screens     int
	consoleTogether, sources, busyServers  int
	busySources, killedSources             int
	sourcesSettle                          time.Duration
	consoleDuration, screensDuration       time.Duration
	consumerRecords, consumerSlowRecords   int
	letters                                int
	json, markdown, profile                string
	quick                                  bool
}

// parse reads the flags. With -quick the sizes are small ones, and flags given beside it still win.
func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{staleHealthy: []int{100_000, 1_000_000, 5_000_000}}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	var chosen, brokers, sides string
	f.StringVar(&chosen, "scenario", strings.Join(allScenarios(), ","), "which scenarios to run: any of "+strings.Join(scenarioNames(), ", "))
	f.StringVar(&brokers, "brokers", "kafka,kfake", "which brokers: kafka (the official broker, from its jars), kfake (in a process of its own); scenarios about the database use the first")
	f.IntVar(&o.runs, "runs", 3, "runs of each side, in turn; the medians count")
	f.BoolVar(&o.quick, "quick", false, "small sizes, to see whether everything works; the figures mean little")
	f.IntVar(&o.events, "events", 500_000, "events in a backlog")
	f.IntVar(&o.keys, "keys", 1000, "distinct keys")
	f.IntVar(&o.payload, "payload", 300, fmt.Sprintf("bytes of a payload, at least %d", minPayload))
	f.StringVar(&sides, "sides", strings.Join(choiceNames(), ","), "which sides to measure; Debezium needs Java 17 and, once, Maven")
	f.BoolVar(&o.everySide, "every-side", false, "measure Debezium, watermill and river on kfake too")
	f.Func("postrider", "one more side: Postrider with `settings` beside its defaults, such as outbox.batch_size=5000,kafka.compression=lz4; may be given again", func(list string) error {
		settings, err := settingsOf(list)
		o.postrider = append(o.postrider, settings)
		return err
	})
	f.IntVar(&o.warm, "warm", 300_000, "most events that a side sends before it is measured; a Java machine needs 300000, others take fewer")
	f.StringVar(&o.postgresDir, "postgres-dir", "", "a `folder` for PostgreSQL's files (default: the system's for temporary ones)")
	f.StringVar(&o.kafkaDir, "kafka-dir", "", "a `folder` for Kafka's files (default: the system's for temporary ones)")
	f.DurationVar(&o.duration, "duration", 20*time.Second, "steady, writers, hotkey, burst, busy: length of one run")
	f.IntVar(&o.rate, "rate", 2000, "steady, takeover, hotkey, burst, busy: transactions a second; console: events a second")
	f.IntVar(&o.slowRate, "slow-rate", 5, "steady: transactions a second of the quiet case")
	f.DurationVar(&o.slowDuration, "slow-duration", time.Minute, "steady: length of one run of the quiet case")
	f.IntVar(&o.clients, "clients", 32, "steady, takeover, hotkey, burst, hour, api, console: connections that keep the schedule")
	f.IntVar(&o.inserts, "inserts", 20_000, "inserts: events of a round")
	f.IntVar(&o.insertRounds, "insert-rounds", 7, "inserts: rounds")
	f.IntVar(&o.takeovers, "takeovers", 10, "takeover, killed: how often the relay that works, or a process, is killed")
	f.DurationVar(&o.takeoverCalm, "takeover-calm", 2*time.Second, "takeover, killed: time under load before a kill; after it twice as much")
	f.IntVar(&o.hotEvents, "hot-events", 100_000, "hotkey: events of the hot key")
	f.IntVar(&o.burstEvents, "burst-events", 500_000, "burst: events of the topic")
	f.IntVar(&o.flatWarm, "flat-warm", 20_000, "flat: events that pass before the window")
	f.IntVar(&o.flatWindow, "flat-window", 100_000, "flat: events in the window that is measured")
	f.IntVar(&o.flatPending, "flat-pending", 1_000_000, "flat: pending events of the large case")
	f.IntVar(&o.flatPublished, "flat-published", 5_000_000, "flat: kept published rows")
	f.IntVar(&o.flatParked, "flat-parked", 200_000, "flat: parked events")
	f.IntVar(&o.faultsEvents, "faults-events", 500_000, "faults: events in the backlog, of all topics")
	f.DurationVar(&o.idleDuration, "idle-duration", 30*time.Second, "idle, sources: length of one run")
	f.IntVar(&o.busySources, "busy-sources", 10, "busy: sources that share the rate of one")
	f.IntVar(&o.killedSources, "killed-sources", 12, "killed: sources that the processes share")
	f.IntVar(&o.busyServers, "busy-servers", 10, "busy: servers over which the sources are spread in the last case")
	f.IntVar(&o.sources, "sources", 200, "sources, commands: quiet databases, with one outbox each")
	f.DurationVar(&o.sourcesSettle, "sources-settle", 70*time.Second, "sources, commands: how long a source has until its connections are those of a quiet one")
	f.IntVar(&o.peerEvents, "peer-events", 100_000, "drain: events in the backlog of watermill and river")
	f.DurationVar(&o.peerLimit, "peer-limit", time.Minute, "drain: longest run of theirs; what passed until then counts")
	f.StringVar(&o.peersBinary, "peers-binary", "", "drain: a `program` built from cmd/internal/bench/peers (default: build it)")
	f.DurationVar(&o.hourDuration, "hour-duration", time.Hour, "hour: its length; a snapshot is held open for a sixth of it, in its middle")
	f.IntVar(&o.consumerRecords, "consumer-records", 1_000_000, "consumer: records to consume")
	f.IntVar(&o.consumerSlowRecords, "consumer-slow-records", 4000, "consumer: records for the slow handler in order of offset; 20 times as many in order of keys")
	f.Func("hour-seconds", "hour: the same in seconds", func(s string) error {
		n, err := strconv.Atoi(s)
		o.hourDuration = time.Duration(n) * time.Second
		return err
	})
	f.IntVar(&o.hourRate, "hour-rate", 5000, "hour: events a second")
	f.Func("stale-healthy", "stale: numbers of healthy tasks, with commas (default 100000,1000000,5000000)", numbers(&o.staleHealthy))
	f.IntVar(&o.staleTasks, "stale-tasks", 10_000, "stale: stale tasks among them")
	f.IntVar(&o.staleDetectors, "stale-detectors", 4, "stale: detectors at once")
	f.IntVar(&o.archiveTasks, "archive-tasks", 100_000, "archive: tasks to archive")
	f.DurationVar(&o.archivePause, "archive-pause", 0, "archive: rest between two batches; postrider serve rests 100ms")
	f.IntVar(&o.viewTasks, "view-tasks", 1_000_000, "archive: live tasks, and archived ones, that the views are about")
	f.IntVar(&o.redriveEntries, "redrive-entries", 100_000, "redrive: investigations redriven without a rate")
	f.IntVar(&o.redriveRated, "redrive-rated", 10_000, "redrive: investigations redriven at a rate")
	f.IntVar(&o.apiEntries, "api-entries", 1_000_000, "api, console: investigations")
	f.IntVar(&o.apiRate, "api-rate", 200, "api: requests a second of the mix")
	f.DurationVar(&o.apiDuration, "api-duration", time.Minute, "api: length of one run of the mix")
	f.IntVar(&o.apiAsks, "api-asks", 40, "api: how often each search for a part of a message is asked")
	f.IntVar(&o.consoleTasks, "console-tasks", 100_000, "console: tasks")
	f.IntVar(&o.consoleTogether, "console-together", 1, "console: events of a transaction of the load beside the pages")
	f.IntVar(&o.consoleRate, "console-rate", 50, "console: pages a second")
	f.DurationVar(&o.consoleDuration, "console-duration", time.Minute, "console: length of one run of the pages")
	f.IntVar(&o.screens, "screens", 200, "console: open streams of events, and screens")
	f.DurationVar(&o.screensDuration, "screens-duration", 30*time.Second, "console: for how long they are open in one run")
	f.IntVar(&o.letters, "letters", 100_000, "collector: dead letters")
	f.StringVar(&o.json, "json", "", "write the results as JSON into this `file`")
	f.StringVar(&o.markdown, "markdown", "", "put the tables into this markdown `file`, each in its place")
	f.StringVar(&o.profile, "profile", "", "write CPU profiles of the relays into this `folder`")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag; choose scenarios with -scenario", f.Arg(0))
	}
	o.scenarios, o.brokers = split(chosen), split(brokers)
	if o.quick {
		given := map[string]bool{}
		f.Visit(func(g *flag.Flag) { given[g.Name] = true })
		for name, value := range quick {
			if !given[name] {
				if err := f.Set(name, value); err != nil {
					return nil, err
				}
			}
		}
	}
	var err error
	if o.sides, err = sidesOf(sides); err != nil {
		return nil, err
	}
	return o, o.validate()
}

// quick are the sizes of -quick.
var quick = map[string]string{
	"events": "50000", "warm": "30000", "duration": "5s", "slow-duration": "10s", "inserts": "5000", "insert-rounds": "3",
	"takeovers": "3", "takeover-calm": "1s", "hot-events": "20000", "burst-events": "50000",
	"flat-warm": "10000", "flat-window": "40000", "flat-pending": "200000", "flat-published": "300000",
	"flat-parked": "20000", "faults-events": "100000", "idle-duration": "5s", "peer-events": "5000",
	"peer-limit": "15s", "hour-duration": "60s", "stale-healthy": "20000,100000", "stale-tasks": "2000",
	"archive-tasks": "5000", "view-tasks": "50000", "redrive-entries": "10000", "redrive-rated": "3000",
	"api-entries": "50000", "api-duration": "5s", "api-asks": "10",
	"console-tasks": "5000", "console-duration": "5s", "screens-duration": "5s",
	"consumer-records": "100000", "consumer-slow-records": "2000",
	"letters": "10000", "sources": "20", "sources-settle": "5s",
}

func split(list string) []string {
	var out []string
	for s := range strings.SplitSeq(list, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func numbers(into *[]int) func(string) error {
	return func(list string) error {
		var all []int
		for _, s := range split(list) {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is not a positive number", s)
			}
			all = append(all, n)
		}
		if len(all) == 0 {
			return errors.New("the list is empty")
		}
		*into = all
		return nil
	}
}

func (o *options) validate() error {
	if len(o.scenarios) == 0 || len(o.brokers) == 0 {
		return errors.New("-scenario and -brokers must name at least one each")
	}
	for _, s := range o.scenarios {
		if _, known := scenarios[s]; !known {
			return fmt.Errorf("-scenario: %q is none of %s", s, strings.Join(scenarioNames(), ", "))
		}
	}
	for _, b := range o.brokers {
		if !slices.Contains([]string{"kfake", "kafka"}, b) {
			return fmt.Errorf("-brokers: %q is neither kfake nor kafka", b)
		}
	}
	for name, n := range map[string]int{
		"runs": o.runs, "events": o.events, "keys": o.keys, "rate": o.rate, "slow-rate": o.slowRate, "clients": o.clients,
		"flat-warm": o.flatWarm, "flat-window": o.flatWindow, "flat-published": o.flatPublished, "flat-parked": o.flatParked,
		"warm": o.warm, "inserts": o.inserts, "insert-rounds": o.insertRounds, "takeovers": o.takeovers, "takeover-calm": int(o.takeoverCalm),
		"hot-events": o.hotEvents, "burst-events": o.burstEvents, "faults-events": o.faultsEvents, "peer-events": o.peerEvents, "hour-rate": o.hourRate,
		"archive-tasks": o.archiveTasks, "view-tasks": o.viewTasks, "redrive-entries": o.redriveEntries, "redrive-rated": o.redriveRated,
		"api-entries": o.apiEntries, "api-rate": o.apiRate, "api-asks": o.apiAsks, "api-duration": int(o.apiDuration),
		"console-tasks": o.consoleTasks, "console-together": o.consoleTogether, "console-rate": o.consoleRate, "console-duration": int(o.consoleDuration), "screens": o.screens, "screens-duration": int(o.screensDuration),
		"letters": o.letters, "sources": o.sources,
		"duration": int(o.duration), "slow-duration": int(o.slowDuration), "idle-duration": int(o.idleDuration),
		"stale-tasks": o.staleTasks, "stale-detectors": o.staleDetectors,
		"consumer-records": o.consumerRecords, "consumer-slow-records": o.consumerSlowRecords,
		"peer-limit": int(o.peerLimit), "hour-duration": int(o.hourDuration),
	} {
		if n < 1 {
			return fmt.Errorf("-%s must be more than 0", name)
		}
	}
	switch {
	case o.payload < minPayload:
		return fmt.Errorf("-payload is %d, it must be at least %d", o.payload, minPayload)
	case o.archivePause < 0:
		return fmt.Errorf("-archive-pause is %v, it must not be negative", o.archivePause)
	case o.flatPending < o.smallBacklog():
		return fmt.Errorf("-flat-pending is %d, it must be at least %d: -flat-warm, -flat-window and half a window more", o.flatPending, o.smallBacklog())
	case o.consumerRecords < slowInKeys*o.consumerSlowRecords:
		return fmt.Errorf("-consumer-records is %d, it must be at least %d times -consumer-slow-records", o.consumerRecords, slowInKeys)
	}
	return nil
}

// smallBacklog is what the small case of flat has pending: it must not run dry within the window.
func (o *options) smallBacklog() int { return o.flatWarm + o.flatWindow + o.flatWindow/2 }
