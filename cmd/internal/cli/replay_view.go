package cli

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider/cmd/internal/plural"
	"github.com/postrider/postrider/internal/replay"
)

// Pace of showing progress: a line that is written over, and a line in a log.
const (
	replayRedraw = 200 * time.Millisecond
	replayLog    = 10 * time.Second
)

// replayProgress shows how far a replay is: on a terminal a line that is written over, elsewhere log lines.
type replayProgress struct {
	bar   *bar
	log   *slog.Logger
	shown time.Time
	began time.Time
	plan  bool
}

func newReplayProgress(w io.Writer, log *slog.Logger) *replayProgress {
	return &replayProgress{bar: newBar(w), log: log, shown: time.Now(), began: time.Now()}
}

func (s *replayProgress) observe(p replay.Progress) {
	if p.Planning != s.plan {
		s.plan, s.began = p.Planning, time.Now()
	}
	now := time.Now()
	if s.bar.terminal {
		if now.Sub(s.shown) < replayRedraw && p.Waiting == "" {
			return
		}
		s.shown = now
		s.bar.draw(replayLine(p, now.Sub(s.began)), p.Looked, p.Records)
		return
	}
	if now.Sub(s.shown) < replayLog || p.Waiting != "" { // the replay itself logs what it waits for
		return
	}
	s.shown = now
	s.log.Info("replay", "planning", p.Planning, "looked_at", p.Looked, "of", p.Records, "sent", p.Sent, "left_alone", p.Left, "not_matching", p.NotMatching)
}

func (s *replayProgress) end() {
	s.bar.end()
	s.bar.last = ""
}

// replayLine says in one line how far it is.
func replayLine(p replay.Progress, since time.Duration) string {
	what := "replaying"
	if p.Planning {
		what = "planning"
	}
	line := fmt.Sprintf("%s: %d of %d looked at", what, p.Looked, p.Records)
	if !p.Planning {
		line += fmt.Sprintf(", %d sent", p.Sent)
		if s := since.Seconds(); s >= 1 {
			line += fmt.Sprintf(" (%.0f a second)", float64(p.Sent)/s)
		}
		line += fmt.Sprintf(", %d skipped", p.Left)
	}
	if p.Waiting != "" {
		line += "; waiting: " + shorten(visible(p.Waiting), maxCell)
	}
	return line
}

// roundText says how a round came about.
func roundText(p *replay.Plan) string {
	switch p.Round {
	case replay.First:
		if p.DefaultName {
			return "the first of this replay, or brokers forgot the last one (offsets.retention.minutes): letters that were sent before would be sent again"
		}
		return "the first of this replay"
	case replay.Resumed:
		return fmt.Sprintf("goes on: %d were sent and %d skipped before", p.AlreadySent, p.AlreadyLeft)
	case replay.Next:
		return "letters that came since the last one was finished"
	case replay.Again:
		return "all once more, as something new to consumers"
	}
	return string(p.Round)
}

func planTable(w io.Writer, p *replay.Plan) error {
	atLeast := ""
	if p.Capped {
		atLeast = "at least "
	}
	span := ""
	if p.Oldest != nil {
		span = moment(*p.Oldest) + " to " + moment(*p.Newest)
	}
	missed := ""
	if p.Missed > 0 {
		missed = plural.Of(p.Missed, "offset was", "offsets were") + " deleted by retention before a read"
	}
	copies := ""
	if p.Copies > 0 {
		copies = atLeast + plural.Of(p.Copies, "letter is", "letters are") + " there more than once, with the same id each time"
	}
	fetched := ""
	if p.Fetched > 0 {
		fetched = fmt.Sprintf("%d of the messages are not in their letters; they were read from the records that these point to", p.Fetched)
	}
	if err := fields(w,
		[2]string{"Replay", p.Run},
		[2]string{"Group", p.Group},
		[2]string{"Round", roundText(p)},
		[2]string{"From", fmt.Sprintf("%s, %d offsets left to read in %d partitions; later letters are not part of it", p.From, p.Records, len(p.Partitions))},
		[2]string{"To", p.To},
		[2]string{"Matching", fmt.Sprintf("%s, not matching: %d", plural.Of(p.Matching, "letter", "letters"), p.NotMatching)},
		[2]string{"Sending", plural.Of(p.Sending, "message", "messages") + ", " + plural.Of(p.Bytes, "byte", "bytes")},
		[2]string{"Fetched", fetched},
		[2]string{"Written", span},
		[2]string{"Keys", fmt.Sprintf("%s%d, and %s without one", atLeast, p.Keys, plural.Of(p.Keyless, "message", "messages"))},
		[2]string{"Order", fmt.Sprintf("%s several letters here and keep their order; of %d they are in different partitions, and their order is not known. Whether later messages of these keys are in their topics already is not known either: what is replayed comes after them.", plural.Of(p.Repeated, "key has", "keys have"), p.Split)},
		[2]string{"Copies", copies},
		[2]string{"Missed", missed},
	); err != nil {
		return err
	}
	if len(p.Targets) > 0 {
		rows := [][]string{}
		for _, name := range sortedKeys(p.Targets) {
			state := ""
			if slices.Contains(p.Missing, name) {
				state = "does not exist"
			}
			rows = append(rows, []string{name, count(p.Targets[name]), state})
		}
		fmt.Fprintln(w)
		if err := wideGrid(w, []string{"TARGET", "MESSAGES", "PROBLEM"}, rows); err != nil {
			return err
		}
	}
	return skippedTable(w, p.Skipped)
}

func skippedTable(w io.Writer, skipped map[replay.Skip]int64) error {
	if len(skipped) == 0 {
		return nil
	}
	var rows [][]string
	for _, s := range slices.Sorted(maps.Keys(skipped)) {
		rows = append(rows, []string{count(skipped[s]), string(s), s.Explain()})
	}
	fmt.Fprintln(w)
	return wideGrid(w, []string{"SKIPPED", "REASON", ""}, rows)
}

// replayNothing says why nothing was sent.
func replayNothing(w io.Writer, p *replay.Plan, dryRun bool) error {
	text := "\nNothing was sent.\n"
	switch {
	case p.Records == 0 && p.Round == replay.Next:
		text = "\nEverything was replayed before; --again, or another --run, sends it once more.\n"
	case p.Records == 0:
		text = "\nThere is nothing to replay.\n"
	case dryRun:
		text = "\nNothing was sent: this is a dry run.\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

func resultTable(w io.Writer, r *replay.Result) error {
	fmt.Fprintf(w, "\n%s sent, %s skipped, not matching: %d.\n", plural.Of(r.Sent, "message is", "messages are"), plural.Of(r.Left(), "dead letter", "dead letters"), r.NotMatching)
	if r.Missed > 0 {
		fmt.Fprintf(w, "%d offsets were deleted by retention before they were read.\n", r.Missed)
	}
	if r.Remaining > 0 {
		fmt.Fprintf(w, "%d offsets are left to read; the same command goes on with them.\n", r.Remaining)
	}
	if err := skippedTable(w, r.Skipped); err != nil || len(r.Refusals) == 0 {
		return err
	}
	rows := make([][]string, len(r.Refusals))
	for i, f := range r.Refusals {
		rows[i] = []string{count(int64(f.Partition)), count(f.Offset), f.Target, f.Code, shorten(f.Message, 2*maxCell)}
	}
	fmt.Fprintln(w)
	return wideGrid(w, []string{"PARTITION", "OFFSET", "REFUSED BY", "CODE", "MESSAGE"}, rows)
}
