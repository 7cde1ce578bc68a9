package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// ErrRequest is wrapped by errors about the options.
var ErrRequest = errors.New("replay refused")

// Targets that are no topic's name.
const (
	// ToOriginal sends each message where it came from, or was bound for.
	ToOriginal = "original"
	// ToRetry sends each to the retry topic of the consumer group that failed, which its letter names in the header
	// message.HeaderRetryTopic: the other groups of its topic do not get it again.
	ToRetry = "retry"
)

// GroupPrefix begins the consumer group of a replay that is not given one.
const GroupPrefix = "postrider-replay-"

// DefaultMaxHops is the default of Options.MaxHops.
const DefaultMaxHops = dlq.DefaultMaxHops

// Moment is a bound in time: the text that was given, "2h" or a date, and its time. A replay that goes on keeps the
// moment that it began with.
type Moment struct {
	Text string
	At   time.Time
}

// Options say which letters are replayed, where to, and how.
type Options struct {
	// From is the dead-letter topic. Required.
	From string
	// To is ToOriginal, ToRetry or a topic. Defaults to ToOriginal.
	To string
	// Match are conditions that must all hold. Defaults to none.
	Match []Match
	// Since and Until bound when a letter was written to its topic: not before Since, before Until. A letter that says
	// no time is then left out. Default to no bound.
	Since, Until Moment
	// Partitions of From to read. Defaults to all.
	Partitions []int32
	// Offsets, if not nil, bounds the offsets to read; it goes with exactly one partition. Defaults to none.
	Offsets *Span
	// Run names the replay. The same name goes on where it ended, another one sends everything as something new.
	// Letters, digits, dots, underscores and hyphens, at most 60. Defaults to a name made of the options above.
	Run string
	// Group is the consumer group that keeps how far the replay is. Defaults to GroupPrefix and the name.
	Group string
	// Again sends the messages of the finished replay once more, as something new. Defaults to false.
	Again bool
	// MaxHops is how often a message is replayed in all, as its header message.HeaderHops counts: a message that becomes
	// a dead letter again after so many replays is left alone. 1 to 1000. Defaults to 3.
	MaxHops int
	// Repair, if not nil, gives headers to messages that have unreadable ones; without it these messages are left
	// alone. Defaults to none.
	Repair *dlq.Repair
	// Custom names the headers of dead letters that a program of the user's own writes. Defaults to none.
	Custom dlq.CustomHeaders
	// Rate is how many messages are sent a second at most; 0 does not limit. Defaults to 0.
	Rate float64
	// Max is how many messages this call sends at most; the rest waits for the next one. 0 does not limit. Defaults
	// to 0.
	Max int64
	// SkipRefused leaves letters alone that the broker refuses for good, and counts them. Defaults to false: the first
	// one ends the replay.
	SkipRefused bool

	// decodeOne reads a dead letter as Custom says; Check makes it.
	decodeOne func(dlq.Record) dlq.Letter
}

// minRate is the lowest rate, one in about three hours; maxRate is more than can be sent.
const (
	minRate = 0.0001
	maxRate = 1e6
)

var runName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,60}$`)

// Check reports the mistakes in the options, in errors that wrap ErrRequest, and sets the defaults.
func (o *Options) Check() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrRequest}, args...)...)
	}
	if o.To == "" {
		o.To = ToOriginal
	}
	if o.MaxHops == 0 {
		o.MaxHops = DefaultMaxHops
	}
	if err := message.ValidTopic(o.From); err != nil {
		return fail("the topic to read: %w", err)
	}
	if err := message.ValidTopic(o.To); err != nil {
		return fail("the topic to send to: %w", err)
	}
	switch {
	case o.To == o.From:
		return fail("%s is read and would be sent to: a replay never ends there", o.From)
	case !o.Since.At.IsZero() && !o.Until.At.IsZero() && !o.Since.At.Before(o.Until.At):
		return fail("since %s is not before until %s", o.Since.Text, o.Until.Text)
	case slices.ContainsFunc(o.Partitions, func(p int32) bool { return p < 0 }):
		return fail("a partition is negative")
	case o.Offsets != nil && (o.Offsets.From < 0 || o.Offsets.To <= o.Offsets.From):
		return fail("the offsets %d to %d are no range", o.Offsets.From, o.Offsets.To-1)
	case o.Offsets != nil && len(o.Partitions) != 1:
		return fail("offsets belong to one partition; name it, and no other")
	case o.Run != "" && !runName.MatchString(o.Run):
		return fail("the name %q must be 1 to 60 letters, digits, dots, underscores and hyphens", o.Run)
	case len(o.Group) > 200 || strings.ContainsFunc(o.Group, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fail("the group must be at most 200 bytes of text on one line")
	case o.MaxHops < 1 || o.MaxHops > dlq.MaxMaxHops:
		return fail("the limit of hops is %d, it must be 1 to %d", o.MaxHops, dlq.MaxMaxHops)
	case o.Rate != 0 && !(o.Rate >= minRate && o.Rate <= maxRate): // in these words, because of NaN
		return fail("the rate is %g, it must be 0 (no limit) or %g to %d a second", o.Rate, minRate, int(maxRate))
	case o.Max < 0:
		return fail("the limit of messages is %d, it must not be negative", o.Max)
	}
	o.decodeOne = o.Custom.Decoder(dlq.Whose{})
	if err := o.Custom.Check(); err != nil {
		return fail("%w", err)
	}
	if o.Repair != nil {
		if err := o.Repair.Check(); err != nil {
			return fail("%w", err)
		}
	}
	slices.Sort(o.Partitions)
	o.Partitions = slices.Compact(o.Partitions)
	return nil
}

// about says which letters a replay is about and where they go. It may not change while the replay goes on.
func (o *Options) about() string {
	parts := []string{"from " + o.From, "to " + o.To}
	conditions := make([]string, len(o.Match))
	for i, m := range o.Match {
		conditions[i] = "match " + m.text
		if !utf8.ValidString(m.text) {
			conditions[i] = "match " + strconv.Quote(m.text)
		}
	}
	slices.Sort(conditions)
	parts = append(parts, conditions...)
	if o.Since.Text != "" {
		parts = append(parts, "since "+o.Since.Text)
	}
	if o.Until.Text != "" {
		parts = append(parts, "until "+o.Until.Text)
	}
	if len(o.Partitions) > 0 {
		parts = append(parts, fmt.Sprint("partitions ", o.Partitions))
	}
	if o.Offsets != nil {
		parts = append(parts, fmt.Sprintf("offsets %d-%d", o.Offsets.From, o.Offsets.To-1))
	}
	if named := o.Custom.String(); named != "" {
		parts = append(parts, "headers "+named)
	}
	return strings.Join(parts, ", ")
}

// run is the name of the replay.
func (o *Options) run() string {
	if o.Run != "" {
		return o.Run
	}
	return digest(o.about())[:12]
}

// group is the consumer group that keeps how far the replay is.
func (o *Options) group() string {
	if o.Group != "" {
		return o.Group
	}
	return GroupPrefix + o.run()
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
