package main

import (
	"context"
	"maps"
	"slices"
)

// scenario is one question with its table.
type scenario struct {
	title string
	// oneBroker scenarios are about the database; they run on the first of the chosen brokers only.
	oneBroker bool
	// slow scenarios are about a broker whose answers take long; they run on one of their own.
	slow bool
	// alone scenarios run only when they are asked for by name.
	alone bool
	run   func(ctx context.Context, r *rig, b *broker, t *table) error
}

func (s scenario) brokers(o *options) []string {
	if s.slow {
		return []string{slowBroker}
	}
	if s.oneBroker {
		return o.brokers[:1]
	}
	return o.brokers
}

// order is the order of a full run: short before long.
var order = []string{"drain", "slow", "writers", "inserts", "steady", "takeover", "hotkey", "burst", "flat", "faults", "memory", "idle", "sources", "busy", "killed", "commands", "telemetry", "consumer", "stale", "archive", "redrive", "collector", "api", "console", "hour"}

var scenarios = map[string]scenario{
	"drain":     {title: "Draining a backlog", run: drain},
	"slow":      {title: "Draining a backlog to a broker whose answers take 250 ms", slow: true, run: slowAnswers},
	"writers":   {title: "What writers pay, flat out", oneBroker: true, run: writers},
	"inserts":   {title: "What an insert costs a backend", oneBroker: true, run: inserts},
	"steady":    {title: "A steady load: commits, events and what they cost", run: steady},
	"takeover":  {title: "A relay is killed, another takes over", run: takeover},
	"hotkey":    {title: "Others' events beside a hot key", run: hotKey},
	"burst":     {title: "Others' events beside a burst of one topic", run: burst},
	"flat":      {title: "Cost per event as the tables grow", oneBroker: true, run: flat},
	"faults":    {title: "Beside a partition without a leader and a missing topic", oneBroker: true, run: faults},
	"memory":    {title: "Memory at full speed", run: memory},
	"idle":      {title: "A process with nothing to do", run: idle},
	"sources":   {title: "Many quiet sources in one process", oneBroker: true, run: sources},
	"busy":      {title: "Ten busy sources in one process, beside one", run: busy},
	"killed":    {title: "One of three processes that share sources is killed", run: killed},
	"commands":  {title: "Redrives of events of many sources", oneBroker: true, run: commands},
	"telemetry": {title: "Draining with metrics and traces, and without", run: telemetry},
	"stale":     {title: "Stale tasks among healthy ones", oneBroker: true, run: stale},
	"archive":   {title: "Archiving tasks, and views over many of them", oneBroker: true, run: archive},
	"redrive":   {title: "Redriving many investigations", oneBroker: true, run: redrive},
	"api":       {title: "The API with many investigations", oneBroker: true, run: api},
	"console":   {title: "The web console with many investigations, beside a steady load", oneBroker: true, run: console},
	"hour":      {title: "A steady load for a long time", alone: true, run: hour},
	"consumer":  {title: "The consumer library, beside a poll loop", run: consume},
	"collector": {title: "Dead letters to investigations", run: collector},
}

// allScenarios are the scenarios of a run that names none.
func allScenarios() []string {
	return slices.DeleteFunc(slices.Clone(order), func(name string) bool { return scenarios[name].alone })
}

func scenarioNames() []string { return slices.Sorted(maps.Keys(scenarios)) }
