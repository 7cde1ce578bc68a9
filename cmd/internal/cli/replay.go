package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/kafkaauth"
	"github.com/postrider/postrider/cmd/internal/obs"
	"github.com/postrider/postrider/cmd/internal/plural"
	relaykafka "github.com/postrider/postrider/internal/relay/kafka"
	"github.com/postrider/postrider/internal/replay"
	replaykafka "github.com/postrider/postrider/internal/replay/kafka"
)

// replayFlags are the flags of postrider replay as they were given.
type replayFlags struct {
	options      replay.Options
	match        []string
	since, until string
	partitions   []int32
	offsets      string
	maxHops      int
	headers      givenHeaders
	dryRun       bool
}

func (c *commands) replay() *cobra.Command {
	var out output
	var sure confirmation
	var given replayFlags
	cmd := &cobra.Command{
		Use:   "replay --from TOPIC",
		Short: "Send dead letters again straight from their topic, without a database",
		Long: `Send dead letters again, straight from their topic, for estates whose letters no collector records. It needs
brokers and no database. First it reads the letters and prints a plan; then it asks, and sends.

Conditions (--match, several are ANDed) are NAME=GLOB or NAME!=GLOB: error (code or message), class, topic (where
the message came from), group (the consumer group that failed), key, header:NAME. A glob fits the whole text: * is any
characters, ? is one, a backslash takes their meaning away.

A message is sent with the letter's key, payload and own headers, byte for byte. The headers of the dead letter and of
an earlier replay are left out. New are replay_of, replay_id and replay_origin, which are the same however often one
replay sends a letter; postrider-event-id and postrider-redrive-of, the ids by which an inbox knows the message since it
was first sent; and postrider-hops, which counts replays and redrives: past --max-hops a message is skipped. The
timestamp is that of sending. A traceparent goes along unchanged, so what handles the message goes on with its trace.
A letter that only points to its record gets the message from there, as long as that is kept; otherwise it is skipped
and counted, as are letters whose dialect is not known where no topic is given.

A replay has a name, made of what is asked for, or given by --run. How far it is, is committed as the offsets of the
consumer group postrider-replay-NAME. After any end of the command, kill -9 as well, the same command goes on: what was
on its way is sent again with the same ids, nothing is left out. When all was sent, the same command sends what has
come since. Brokers forget offsets of a group without members after offsets.retention.minutes (a week by default): after
that the same command begins with the first letter again. --again, or another --run, sends everything once more, as
something new to consumers.

Messages keep the order of their letters in each partition; a key goes to the partition that other producers choose for
it. Brokers that are away before anything is sent end the command within a minute; later they are waited for. The first
letter that the broker refuses for good ends the command, unless --skip-refused. Exit codes: 0 done, 1 failed or
stopped, 2 wrong command line, 3 done, and some dead letters were skipped, or deleted before they were read.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.check(); err != nil {
				return err
			}
			options, err := given.read(cmd)
			if err != nil {
				return err
			}
			cfg, err := c.load(inWords, "kafka.brokers")
			if err != nil {
				return err
			}
			log, err := obs.NewLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
			if err != nil {
				return err
			}
			options.Custom = cfg.Collector.CustomHeaders()
			return c.withReplay(cmd.Context(), cfg, options, log, func(r *replay.Replay, show *replayProgress) error {
				return c.runReplay(cmd, r, cfg.Kafka.Brokers, show, &out, &sure, given.dryRun)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&given.options.From, "from", "", "the dead-letter `topic` to read")
	f.StringVar(&given.options.To, "to", replay.ToOriginal, "where to send: original (where each message came from), retry (the retry topic of the group that failed), or a `topic`")
	f.StringArrayVar(&given.match, "match", nil, "only letters that meet this `condition`, such as error=*timeout*; may be repeated")
	f.StringVar(&given.since, "since", "", "only letters written at this `time` or after, 2026-01-31T12:00:00Z, or how long ago, 36h or 30d")
	f.StringVar(&given.until, "until", "", "only letters written before this `time`, given alike")
	f.Int32SliceVar(&given.partitions, "partition", nil, "only these `partitions` of the dead-letter topic")
	f.StringVar(&given.offsets, "offsets", "", "with one --partition: only offsets `FROM-TO`, both included")
	f.StringVar(&given.options.Run, "run", "", "the `name` of the replay; another one sends everything as something new")
	f.StringVar(&given.options.Group, "group", "", "the consumer `group` that keeps how far it is (default postrider-replay-NAME)")
	f.BoolVar(&given.options.Again, "again", false, "send what this replay has sent before once more, as something new")
	f.IntVar(&given.maxHops, "max-hops", replay.DefaultMaxHops, "how often a message is replayed in all, 1 to 1000")
	given.headers.bindRepair(f)
	f.Float64Var(&given.options.Rate, "rate", 0, "send so many messages a second at most; 0 is no limit")
	f.Int64Var(&given.options.Max, "max", 0, "send so many messages at most; the same command then goes on with the rest; 0 is no limit")
	f.BoolVar(&given.options.SkipRefused, "skip-refused", false, "leave letters alone that the broker refuses for good, and go on")
	f.BoolVar(&given.dryRun, "dry-run", false, "print the plan, and send nothing")
	sure.bind(cmd)
	out.bind(cmd)
	return cmd
}

// read makes options of the flags.
func (g *replayFlags) read(cmd *cobra.Command) (replay.Options, error) {
	o := g.options
	if o.From == "" {
		return o, usagef("--from is not given; it is the dead-letter topic to read")
	}
	for _, text := range g.match {
		m, err := replay.ParseMatch(text)
		if err != nil {
			return o, usagef("--match: %w", err)
		}
		o.Match = append(o.Match, m)
	}
	var err error
	if o.Since.At, err = parsePastTime("since", g.since); err != nil {
		return o, err
	}
	if o.Until.At, err = parsePastTime("until", g.until); err != nil {
		return o, err
	}
	o.Since.Text, o.Until.Text = g.since, g.until
	o.Partitions = g.partitions
	if g.offsets != "" {
		from, to, found := strings.Cut(g.offsets, "-")
		first, err1 := strconv.ParseInt(from, 10, 64)
		last, err2 := strconv.ParseInt(to, 10, 64)
		if !found || err1 != nil || err2 != nil || last < first || last == 1<<63-1 {
			return o, usagef("--offsets is %q; it must be FROM-TO, such as 100-199", shorten(g.offsets, 60))
		}
		o.Offsets = &replay.Span{From: first, To: last + 1}
	}
	if g.maxHops < 1 { // 0 would be the default
		return o, usagef("--max-hops is %d; it must be 1 to 1000", g.maxHops)
	}
	o.MaxHops = g.maxHops
	if o.Repair, err = g.headers.repair(); err != nil {
		return o, err
	}
	if err := o.Check(); err != nil {
		return o, &usageError{err}
	}
	return o, nil
}

// withReplay runs do with a replay on the brokers of the settings.
func (c *commands) withReplay(ctx context.Context, cfg config.Config, options replay.Options, log *slog.Logger, do func(*replay.Replay, *replayProgress) error) error {
	for _, warning := range cfg.KafkaWarnings() {
		log.Warn(warning)
	}
	auth, err := kafkaauth.Options(cfg.Kafka, 3*time.Second) // the command says soon that no broker answers
	if err != nil {
		return err
	}
	cluster, err := replaykafka.New(replaykafka.Config{Brokers: cfg.Kafka.Brokers, ClientID: cfg.Kafka.ClientID, Logger: log, Options: auth})
	if err != nil {
		return err
	}
	defer cluster.Close()
	publisher, err := relaykafka.NewPublisher(relaykafka.Config{
		Brokers: cfg.Kafka.Brokers, ClientID: cfg.Kafka.ClientID, MaxMessageBytes: cfg.Kafka.MaxMessageBytes, MaxRequestBytes: cfg.Kafka.MaxRequestBytes,
		Compression: cfg.Kafka.Compression, Logger: log, Options: auth, // never creates a topic, whatever the settings say
	})
	if err != nil {
		return err
	}
	defer publisher.Close()
	originals, err := app.NewOriginals(cfg, log, auth)
	if err != nil {
		return err
	}
	defer originals.Close()
	spans, stop, err := app.Trace(ctx, cfg.Tracing, log)
	if err != nil {
		return err
	}
	defer stop()
	show := newReplayProgress(c.stderr, log)
	r, err := replay.New(replay.Config{Cluster: cluster, Publisher: publisher, Originals: originals, Options: options, Observer: show.observe, Logger: log, TracerProvider: spans})
	if err != nil {
		return err
	}
	return do(r, show)
}

// replayView is the JSON of postrider replay.
type replayView struct {
	Plan   replay.Plan    `json:"plan"`
	DryRun bool           `json:"dry_run"`
	Result *replay.Result `json:"result"`
}

// runReplay plans, asks, and replays.
func (c *commands) runReplay(cmd *cobra.Command, r *replay.Replay, brokers []string, show *replayProgress, out *output, sure *confirmation, dryRun bool) error {
	ctx := cmd.Context()
	view := replayView{DryRun: dryRun}
	var err error
	view.Plan, err = r.Plan(ctx)
	show.end()
	if err != nil {
		return stoppedReplay(ctx, err, brokers, "nothing was sent")
	}
	problem := view.Plan.Problem()
	if problem != nil {
		problem = &usageError{problem}
	}
	idle := view.Plan.Sending == 0
	if out.format == "table" {
		if err := planTable(c.stdout, &view.Plan); err != nil {
			return err
		}
	}
	if dryRun || problem != nil || idle {
		if err := out.print(c.stdout, view, func(w io.Writer) error { return replayNothing(w, &view.Plan, dryRun) }); err != nil {
			return err
		}
		if problem == nil && !dryRun && len(view.Plan.Skipped) > 0 {
			return &spokenError{errPartly}
		}
		return problem
	}
	if err := c.askReplay(cmd, &view.Plan, out, sure); err != nil {
		return err
	}
	result, runErr := r.Run(ctx, view.Plan)
	show.end()
	view.Result = &result
	if err := out.print(c.stdout, view, func(w io.Writer) error { return resultTable(w, &result) }); err != nil {
		return errors.Join(runErr, err)
	}
	switch {
	case runErr != nil:
		return stoppedReplay(ctx, runErr, brokers, "sent letters are remembered; the same command goes on")
	case result.Left() > 0, result.Missed > 0:
		return &spokenError{errPartly}
	}
	return nil
}

// askReplay asks whether the plan is meant. Where the plan is not on standard output yet, it is shown beside the question.
func (c *commands) askReplay(cmd *cobra.Command, p *replay.Plan, out *output, sure *confirmation) error {
	if out.format != "table" && !sure.yes {
		if err := planTable(c.stderr, p); err != nil {
			return err
		}
	}
	return sure.askAtTerminal(cmd, fmt.Sprintf("%s will be sent to %s.", plural.Of(p.Sending, "message", "messages"), plural.Of(len(p.Targets), "topic", "topics")))
}

// stoppedReplay turns the end of a replay into an error for the caller.
func stoppedReplay(ctx context.Context, err error, brokers []string, meanwhile string) error {
	switch {
	case errors.Is(err, replay.ErrNoBroker) && ctx.Err() == nil:
		return fmt.Errorf("%w\nIt asked the brokers %s, and sent nothing. See that they are up, are the right ones (--kafka-brokers), and that the addresses they give out can be reached from here; postrider doctor tries them",
			err, strings.Join(brokers, ", "))
	case ctx.Err() != nil:
		return fmt.Errorf("it was stopped; %s", meanwhile)
	case errors.Is(err, replay.ErrRequest):
		return &usageError{err}
	}
	if refusal, ok := errors.AsType[*replay.Refusal](err); ok {
		return fmt.Errorf("%w; mend the topic and repeat the command, or leave such letters alone with --skip-refused", refusal)
	}
	return err
}
