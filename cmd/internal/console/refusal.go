package console

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The API speaks to programs: it names fields of requests, and times as Go writes them. What it refuses is shown to people here.

// refusal is what a page says of an error: a sentence in people's words.
func refusal(err error) string { return sentence(inWords(told(err).Message)) }

// fieldWords are names of the API's fields, and of their values, as pages call them.
var fieldWords = map[string]string{
	"batch_size": "the size of a batch", "dlq_reason": "the reason", "dlq_topic": "the dead-letter topic",
	"consumer_group": "the consumer group", "error_code": "the code", "event_id": "the event", "expires_in_seconds": "how long it works",
	"final_state": "the state at its end", "for_seconds": "for how long",
	"hold_id": "the hold", "if_assignee": "who had it", "manually_resolved": "resolved", "max_hops": "how often a message may be sent again", "muted_until": "until when it is muted",
	"namespace_name": "the namespace", "near_stale": "nearly stale", "older_than": "the age", "order_by": "the order", "order_dir": "the order",
	"page_size": "the size of a page", "payload_base64": "the payload", "payload_text": "the payload", "permanently_failed": "failed for good", "release_keys": "to let keys go on",
	"resolution_notes": "what was noted", "resolution_status": "the state", "resolved_by": "who resolved it", "reset_retry_count": "forget its failures", "complete_manually": "mark it as done",
	"subject_id": "the subject", "subject_type": "the type", "task_name": "the name of the task", "task_uuid": "the task",
}

var (
	// inQuotes are texts of people, of programs and of addresses, which stay as they are.
	inQuotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|“[^”]*”`)
	// goTime is a time as Go writes it, such as 1m0s or 1.5s.
	goTime = regexp.MustCompile(`(^|[\s(])((?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:s|ms)|\d+h(?:\d+m)?|\d+m)([\s,;:.)]|$)`)
	// inSeconds is a time in seconds, such as 75 s.
	inSeconds = regexp.MustCompile(`\b(\d+) s\b`)
	// apiName is a word that may be a name of the API. A word with a point is a setting, except as the path of a field.
	apiName = regexp.MustCompile(`(^|[\s(])(?:field (?:[a-z]+\.)*)?([a-z]+(?:_[a-z0-9]+)+)(?: of the body)?([\s,;:.)]|$)`)
	// manyPicked is about the investigations that a form names.
	manyPicked = regexp.MustCompile(`^ids has (\d+) elements; it must have`)
	// saidFirst is what services put before their reason.
	saidFirst = regexp.MustCompile(`(^|: )(?:(?:request refused|operation refused|refused|invalid|the name is taken|edit|target|invalid outbox event): )+`)
	// ofAKey is who has not the scope: a person, here.
	ofAKey = regexp.MustCompile(`, which the key ("(?:[^"\\]|\\.)*") does not have`)
	// nameTaken is about a plan with the name of an operation that has not ended.
	nameTaken = regexp.MustCompile(`planned it at (\S+), and it is (\w+)\. Go on with that one, abort it, or give another name`)
	// cannotBeTold is about a command that does not fit the state of an operation.
	cannotBeTold = regexp.MustCompile(`it is (\w+), and cannot be told to (\w+)(?:; it has (ended|begun), .*)?`)
	// noPlace is an address of a page of a list that is no such address.
	noPlace = regexp.MustCompile(`after is not what an answer (?:about the same group )?named as next`)
)

// inWords is a refusal of the API without names of its fields, and with times as people read them. What stands in quotes stays.
// So do the parameters of an address, which a person reads there.
func inWords(message string) string {
	if strings.HasPrefix(message, "parameter ") {
		return timesInWords(message)
	}
	message = ofAKey.ReplaceAllString(message, ", which $1 does not have")
	message = saidFirst.ReplaceAllString(message, "$1")
	var out strings.Builder
	from := 0
	for _, quote := range inQuotes.FindAllStringIndex(message, -1) {
		out.WriteString(plainWords(message[from:quote[0]]))
		out.WriteString(message[quote[0]:quote[1]])
		from = quote[1]
	}
	out.WriteString(plainWords(message[from:]))
	return out.String()
}

// commandWords are what commands do to an operation, as its buttons say it.
var commandWords = map[string]string{"start": "be started", "pause": "be halted", "resume": "go on", "abort": "be ended"}

// lowerWord is the word for a state, within a sentence.
func lowerWord(state string) string { return strings.ToLower(statusWords(state).Word) }

// replaceParts is a text with what is found in it replaced; parts are the whole find and its groups.
func replaceParts(find *regexp.Regexp, text string, by func(parts []string) string) string {
	return find.ReplaceAllStringFunc(text, func(found string) string { return by(find.FindStringSubmatch(found)) })
}

// plainWords is inWords for what is in no quotes.
func plainWords(text string) string {
	text = noPlace.ReplaceAllString(text, "this address does not name a place in the list; begin at its first page")
	text = replaceParts(nameTaken, text, func(parts []string) string {
		when := parts[1]
		if at, err := time.Parse(time.RFC3339, when); err == nil {
			when = at.UTC().Format("15:04:05 UTC on 2 Jan")
		}
		return "planned it at " + when + ", and it is " + lowerWord(parts[2]) + ". Go on with that one, end it, or give another name"
	})
	text = replaceParts(cannotBeTold, text, func(parts []string) string {
		said := "it is " + lowerWord(parts[1]) + ", and cannot " + cmp.Or(commandWords[parts[2]], parts[2])
		if parts[3] == "ended" {
			said += "; a new plan can do more"
		}
		return said
	})
	text = manyPicked.ReplaceAllString(text, "$1 are picked; it must be")
	text = inSeconds.ReplaceAllStringFunc(text, func(found string) string {
		d, err := time.ParseDuration(strings.ReplaceAll(found, " ", ""))
		if err != nil {
			return found
		}
		return spanWords(d)
	})
	return apiName.ReplaceAllStringFunc(timesInWords(text), func(found string) string {
		parts := apiName.FindStringSubmatch(found)
		if word := fieldWords[parts[2]]; word != "" {
			return parts[1] + word + parts[3]
		}
		return found // a name of a person's, or a setting
	})
}

// timesInWords is a text with its times as people read them.
func timesInWords(text string) string {
	return goTime.ReplaceAllStringFunc(text, func(found string) string {
		parts := goTime.FindStringSubmatch(found)
		d, err := time.ParseDuration(parts[2])
		if err != nil {
			return found
		}
		return parts[1] + spanWords(d) + parts[3]
	})
}

// spanWords is a time in words, exactly: 1 minute 30 seconds.
func spanWords(d time.Duration) string {
	if d < time.Second {
		return some(d.Milliseconds(), "millisecond", "milliseconds")
	}
	var parts []string
	for _, unit := range []struct {
		of        time.Duration
		one, many string
	}{{24 * time.Hour, "day", "days"}, {time.Hour, "hour", "hours"}, {time.Minute, "minute", "minutes"}} {
		if n := d / unit.of; n > 0 {
			parts = append(parts, some(int64(n), unit.one, unit.many))
			d %= unit.of
		}
	}
	if seconds := d.Seconds(); d > 0 {
		word := "seconds"
		if seconds == 1 {
			word = "second"
		}
		parts = append(parts, strconv.FormatFloat(seconds, 'f', -1, 64)+" "+word)
	}
	return strings.Join(parts, " ")
}
