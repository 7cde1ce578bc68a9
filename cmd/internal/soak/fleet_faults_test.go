package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// deck deals every fault of a fleet once, in a random order.
func (s *fleetStage) deck(rng *rand.Rand) []fault {
	deck := append(s.processFaults(rng), s.settingsFaults(rng)...)
	deck = append(deck, on("desk", append(s.stage.postgresFaults(rng), s.networkFaults(rng)...))...)
	for _, f := range on("far", append(s.far.postgresFaults(rng), s.far.networkFaults(rng)...)) {
		if !slices.ContainsFunc(f.touches, func(thing string) bool { return thing == "kafka links" || thing[:5] == "kafka" }) {
			deck = append(deck, f) // the links to the broker are those of the stage
		}
	}
	if s.jars != nil {
		deck = append(deck, s.brokerFaults(rng)...)
	}
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// shortDeck deals the faults that a run of seconds has the time for: one of each kind that only a fleet has.
func (s *fleetStage) shortDeck(rng *rand.Rand) []fault {
	deck := append(s.processFaults(rng), s.settingsFaults(rng)...)
	for _, f := range append(on("desk", s.stage.postgresFaults(rng)), on("far", s.far.postgresFaults(rng))...) {
		switch f.name {
		case "far: PostgreSQL crashed", "far: commits of a relay or the collector cut", "desk: commits of a relay or the collector cut", "desk: PostgreSQL restarted":
			deck = append(deck, f)
		}
	}
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

// on names what faults of one of the servers break, apart from the same of the other. What is about the broker stays as it is.
func on(server string, faults []fault) []fault {
	for i, f := range faults {
		faults[i].name = server + ": " + f.name
		for j, thing := range f.touches {
			if thing != "broker" && thing[:min(5, len(thing))] != "kafka" {
				f.touches[j] = server + " " + thing
			}
		}
	}
	return faults
}

func (s *fleetStage) processFaults(rng *rand.Rand) []fault {
	one, two, three := rng.IntN(fleetProcesses), rng.IntN(fleetProcesses), rng.IntN(fleetProcesses)
	stopped := s.pace.idle + s.pace.publish + s.outage(rng)
	return []fault{
		{"kill -9 of a process", []string{nthProcess(one)}, func() error {
			s.actors[one].kill()
			return nil
		}},
		{"kill -9 of two processes", []string{nthProcess(0), nthProcess(1), nthProcess(2)}, func() error {
			s.actors[two].kill()
			s.actors[(two+1)%fleetProcesses].kill()
			return nil
		}},
		{"a process stopped and started again", []string{nthProcess(three)}, func() error {
			_, _, dead := s.actors[three].now(true)
			if err := s.actors[three].signal(syscall.SIGTERM); err != nil {
				return nil // another fault had killed it
			}
			select {
			case <-dead:
				return nil
			case <-time.After(45 * time.Second):
				return fmt.Errorf("process %d did not stop within 45 s; it said:\n%s", three, s.actors[three].log)
			}
		}},
		{"SIGSTOP of a process past every timeout", []string{nthProcess(one)}, func() error { return s.stopAndGoOn(s.actors[one], stopped) }},
	}
}

// settingsFaults change the settings of all processes while they work.
func (s *fleetStage) settingsFaults(rng *rand.Rand) []fault {
	gone, moved := s.sources[rng.IntN(len(s.sources))], s.sources[rng.IntN(len(s.sources))]
	away := s.outage(rng)
	settings := []string{"settings"}
	return []fault{
		{"a source taken out of the settings, and put back", settings, func() error {
			for _, folder := range s.folders {
				if err := os.Remove(filepath.Join(folder, gone.name+".yaml")); err != nil {
					return err
				}
			}
			s.reload()
			rest(away)
			s.write(gone, false)
			s.reload()
			return nil
		}},
		{"settings that cannot be read", settings, func() error {
			for _, folder := range s.folders {
				s.put(folder, "broken", "name: [\n")
			}
			s.reload()
			rest(away)
			for _, folder := range s.folders {
				if err := os.Remove(filepath.Join(folder, "broken.yaml")); err != nil {
					return err
				}
			}
			s.reload()
			return nil
		}},
		{"a source with another address, and back", settings, func() error {
			s.write(moved, true)
			s.reload()
			rest(away)
			s.write(moved, false)
			s.reload()
			return nil
		}},
	}
}
