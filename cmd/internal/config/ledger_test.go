package config

import (
	"testing"
	"time"
)

// The blocks of the seed's file are read as the keys of the section.
func TestBlocks(t *testing.T) {
	t.Parallel()
	c, err := Load(From{File: write(t, `
staleness:
  enabled: true
  detection_interval_seconds: 120
  thresholds:
    waiting_for_dependencies_minutes: 90
    waiting_for_retry_minutes: 45
    steps_in_process_minutes: 15
    task_max_lifetime_hours: 12
  actions:
    auto_transition_to_error: false
    auto_move_to_dlq: false
    emit_events: false
    event_channel: late
dlq:
  reasons:
    staleness_timeout: false
    max_retries_exceeded: false
    worker_unavailable: false
    dependency_cycle_detected: false
archive:
  policies:
    archive_completed: false
    archive_failed: false
    archive_cancelled: true
    archive_dlq_resolved: false
`), Environ: []string{"STALENESS_WAITING_FOR_RETRY_MINUTES=46"}})
	if err != nil {
		t.Fatal(err)
	}
	s, d, a := c.Staleness, c.DLQ, c.Archive
	if s.DetectionInterval != 2*time.Minute || s.WaitingForDependenciesMinutes != 90 || s.WaitingForRetryMinutes != 46 || s.StepsInProcessMinutes != 15 ||
		s.TaskMaxLifetimeHours != 12 || s.AutoTransitionToError || s.AutoMoveToDLQ || s.EmitEvents || s.EventChannel != "late" {
		t.Errorf("staleness: %+v", s)
	}
	if d.ReasonStalenessTimeout || d.ReasonMaxRetriesExceeded || d.ReasonWorkerUnavailable || d.ReasonDependencyCycleDetected || !d.Enabled {
		t.Errorf("dlq: %+v", d)
	}
	if a.ArchiveCompleted || a.ArchiveFailed || !a.ArchiveCancelled || a.ArchiveDLQResolved {
		t.Errorf("archive: %+v", a)
	}
}

// Every key that a block names is one of its section.
func TestBlocksNameKeys(t *testing.T) {
	t.Parallel()
	for _, b := range blocks {
		for _, own := range b.keys {
			if _, known := named(b.section + "." + b.prefix + own); !known {
				t.Errorf("%s.%s has %s, which is no key", b.section, b.name, own)
			}
		}
	}
}

func TestMistakesInBlocks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"unknown key":      {"staleness:\n  thresholds:\n    waiting_minutes: 5\n", []string{"postrider.yaml:3", "waiting_minutes", "staleness.thresholds has waiting_for_dependencies_minutes"}},
		"of another block": {"staleness:\n  thresholds:\n    emit_events: true\n", []string{"postrider.yaml:3", "emit_events"}},
		"twice":            {"staleness:\n  emit_events: true\n  actions:\n    emit_events: true\n", []string{"postrider.yaml:4", "staleness.emit_events", "line 2"}},
		"no mapping":       {"dlq:\n  reasons: all\n", []string{"postrider.yaml:2", "dlq.reasons must be a mapping"}},
		"wrong section":    {"archive:\n  thresholds:\n    archive_failed: true\n", []string{"postrider.yaml:2", "archive.thresholds"}},
		"value":            {"archive:\n  policies:\n    archive_failed: perhaps\n", []string{"postrider.yaml:3", "archive.archive_failed", "true, false"}},
		"channel":          {"staleness:\n  event_channel: a b\n", []string{"postrider.yaml:2", "staleness.event_channel", "underscores"}},
		"times":            {"staleness:\n  time_budget_seconds: 2\n", []string{"staleness.latency_limit_ms is 5000", "staleness.time_budget_seconds, which is 2 seconds"}},
		"pages":            {"dlq:\n  page_size_max: 10\n", []string{"dlq.page_size_default is 25", "dlq.page_size_max, which is 10"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, From{File: write(t, c.file)}, c.want, "")
		})
	}
}
