package httpapi

import (
	"context"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/internal/tasks/ledger"
)

// maxPause is the longest pause of engines that has an end.
const maxPause = 366 * 24 * time.Hour

// maxDetectBatch is what staleness.batch_size allows, too.
const maxDetectBatch = 10000

func (s *Services) detectorStatus(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	status, err := s.Tasks.Ledger().DetectorStatus(ctx)
	return api.DetectorOf(status), err
}

func (s *Services) archiverStatus(ctx context.Context, r *Request) (any, error) {
	if err := r.unread(); err != nil {
		return nil, err
	}
	return s.engineSwitch(ctx, ledger.EngineArchiver)
}

// engineSwitch is the switch of the engines of a kind, as it is shown.
func (s *Services) engineSwitch(ctx context.Context, e ledger.Engine) (ledger.Switch, error) {
	now, err := s.Tasks.Ledger().Switch(ctx, e)
	return api.SwitchOf(now), err
}

// pauseEngine pauses the engines of a kind.
func (s *Services) pauseEngine(e ledger.Engine) func(context.Context, *Request) (any, error) {
	return func(ctx context.Context, r *Request) (any, error) {
		var b pauseEngineBody
		if err := r.optional(&b); err != nil {
			return nil, err
		}
		switch {
		case b.Seconds != 0 && (b.Seconds < 1 || b.Seconds > maxPause.Seconds()):
			return nil, refuse(Validation, "for_seconds is %v; it must be 1 to %.0f, or 0 until they are resumed", b.Seconds, maxPause.Seconds())
		case len(b.Reason) > 4096:
			return nil, refuse(Validation, "reason has %d bytes; it may have 4096", len(b.Reason))
		}
		p := ledger.Pause{By: r.Actor.Name, Reason: b.Reason, For: time.Duration(b.Seconds * float64(time.Second))}
		if err := s.Tasks.PauseEngine(ctx, r.Actor.Name, e, p); err != nil {
			return nil, err
		}
		return s.engineSwitch(ctx, e)
	}
}

// resumeEngine ends a pause of the engines of a kind.
func (s *Services) resumeEngine(e ledger.Engine) func(context.Context, *Request) (any, error) {
	return func(ctx context.Context, r *Request) (any, error) {
		if err := r.optional(&struct{}{}); err != nil {
			return nil, err
		}
		resumed, err := s.Tasks.ResumeEngine(ctx, r.Actor.Name, e)
		if err != nil {
			return nil, err
		}
		now, err := s.engineSwitch(ctx, e)
		return api.ResumedEngine{Resumed: resumed, Switch: now}, err
	}
}

// runDetector makes one batch of what the detectors do, by the settings that the database has, also while they are paused.
func (s *Services) runDetector(ctx context.Context, r *Request) (any, error) {
	began := time.Now()
	var b runDetectorBody
	if err := r.optional(&b); err != nil {
		return nil, err
	}
	d := ledger.StoredDetection()
	d.DryRun = b.DryRun == nil || *b.DryRun
	if b.BatchSize != nil {
		d.BatchSize = *b.BatchSize
	}
	if d.BatchSize < 1 || d.BatchSize > maxDetectBatch {
		return nil, refuse(Validation, "batch_size is %d; it must be 1 to %d", d.BatchSize, maxDetectBatch)
	}
	found, err := s.Tasks.DetectStale(ctx, r.Actor.Name, d)
	if err != nil {
		return nil, err
	}
	return api.NewStaleTasks(found, d.DryRun, time.Since(began)), nil
}

// runArchive archives one batch, by the settings of this process, also while the archivers are paused.
func (s *Services) runArchive(ctx context.Context, r *Request) (any, error) {
	var b runArchiveBody
	if err := r.optional(&b); err != nil {
		return nil, err
	}
	step := s.Archiving
	step.DryRun, step.BatchSize = b.DryRun == nil || *b.DryRun, ledger.MaxArchiveTransaction
	if b.After != "" {
		place, err := ledger.ParseTaskPlace(b.After)
		if err != nil {
			return nil, notAPlace("after", b.After)
		}
		step.After = &place
	}
	done, err := s.Tasks.ArchiveBatch(ctx, r.Actor.Name, step)
	if err != nil {
		return nil, err
	}
	return api.NewArchiveRun(done, step.DryRun), nil
}
