package main

// meter reads the CPU time of everything that takes part.
type meter struct {
	rig   *rig
	also  []*rig // whose PostgreSQL counts, too
	b     *broker
	sides []process
	// writers are the processes of PostgreSQL that serve writers; they must last until the meter was read.
	writers []int
}

func (m meter) now() cpu {
	var c cpu
	for _, s := range m.sides {
		c.side += cpuSeconds(s.pid(), false)
	}
	for _, pid := range m.writers {
		c.writers += cpuSeconds(pid, false)
	}
	c.database, c.broker = cpuSeconds(m.rig.postmaster, true), cpuSeconds(m.b.pid, true)
	for _, r := range m.also {
		c.database += cpuSeconds(r.postmaster, true)
	}
	return c
}

// costs are the cells of CPU seconds per 100,000 events without writers.
func costs(samples []cpu, side string) []cell {
	return []cell{
		{Name: "CPU s per 100k: " + side, Runs: pick(samples, func(c cpu) float64 { return c.side })},
		{Name: "PostgreSQL", Runs: pick(samples, func(c cpu) float64 { return c.database })},
		{Name: "broker", Runs: pick(samples, func(c cpu) float64 { return c.broker })},
	}
}

// writtenCosts are the cells with writers: PostgreSQL's time is the writers' and that of all else.
func writtenCosts(samples []cpu) []cell {
	return []cell{
		{Name: "CPU s per 100k: side", Runs: pick(samples, func(c cpu) float64 { return c.side })},
		{Name: "writers' backends", Runs: pick(samples, func(c cpu) float64 { return c.writers })},
		{Name: "PostgreSQL beside them", Runs: pick(samples, cpu.rest)},
		{Name: "broker", Runs: pick(samples, func(c cpu) float64 { return c.broker })},
	}
}
