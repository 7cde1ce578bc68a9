package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// sourcesView are the databases whose outboxes are carried beside that of database.url, the worst first.
type sourcesView struct {
	Say say
	// LookedAt is when the databases were asked.
	LookedAt time.Time
	// Sources are a page of Count.
	Sources []sourceRow
	Count   int
	// More and First are addresses of other pages; empty for none.
	More, First string
	// Removed are sources that the desk knows and the settings do not name.
	Removed []api.RemovedSource
}

// sourceRow is a line of it.
type sourceRow struct {
	api.Source
	Words stateWords
	Path  string
}

// sourceView is one source.
type sourceView struct {
	sourceRow
	Say      say
	LookedAt time.Time
}

// Waiting is how many events have not gone, as the menu counts those of the outbox.
func (s sourceRow) Waiting() int64 { return waiting(s.Source) }

func waiting(s api.Source) int64 { return s.Pending + s.Parked + s.Scheduled }

// Oldest is the age of the oldest event that should have gone by now; – where there is none.
func (s sourceRow) Oldest() string {
	if s.OldestDueSeconds <= 0 {
		return "–"
	}
	return ageText(seconds(s.OldestDueSeconds))
}

// sourceProblem says why a source cannot be carried: as a state, behind its name, and what to do about it.
type sourceProblem struct{ word, verb, do string }

// sourceProblems are the reasons of the API's sources. The runbook has the same remedies.
var sourceProblems = map[string]sourceProblem{
	"away":         {"Away", "cannot be reached", "Start its database, or mend the network or its address."},
	"slow":         {"Slow", "does not answer in time", "Find what keeps its statements: locks, its disk, its load."},
	"full":         {"Disk full", "has no room on its disk", "Give its disk room."},
	"read_only":    {"Read-only", "takes no writes", "Give the primary, or several hosts and target_session_attrs=read-write."},
	"login":        {"Login refused", "refuses the login", "Correct the user or the password."},
	"no_database":  {"No database", "leads to no database", "Correct the name of the database in its address."},
	"rights":       {"Rights missing", "gives its login too few rights", "Run postrider migrate roles --apply there, and grant postrider_relay to the login."},
	"connections":  {"No connection free", "has no connection free", "Raise max_connections there, or lower limits.connections of its sources."},
	"schema":       {"Not migrated", "does not have the schema that it needs", "Run postrider migrate up --only outbox there."},
	"version":      {"Version refused", "runs a version of PostgreSQL that is refused", "Upgrade PostgreSQL there."},
	"name":         {"Another name", "has another name in its database", "Give it the name that its database has; a name is never changed."},
	"rewound":      {"Set back", "was set back to an earlier state", "“postrider sources rejoin” with its name says what is undone, and leads it back. The page Restoring of the documents has the steps."},
	"copy":         {"A copy", "leads to a copy, or to a database that was moved", "“postrider sources rejoin” with its name says that it was moved; with --new-identity it makes a copy a source of its own."},
	"identity":     {"Another database", "leads to another database than before", "Correct its address, or say by “postrider sources rejoin” with its name that this is the source now."},
	"forgotten":    {"Forgotten", "was forgotten", "Take it out of the settings, or lead it back by “postrider sources rejoin” with its name."},
	"desk_rewound": {"Desk set back", "has done what the desk does not know: the desk’s database was set back", "“postrider sources rejoin” with its name says what it did, and leads it back. The page Restoring of the documents has the steps."},
}

// problemOf is why a source cannot be carried.
func problemOf(s api.Source) sourceProblem {
	if p, known := sourceProblems[text(s.Reason)]; known {
		return p
	}
	return sourceProblem{"Failed", "cannot be carried", "Its page has the error."}
}

// lateFrom is how old the oldest due event of a source is at least when the source is late.
const lateFrom = time.Minute

func sourceWords(s api.Source) stateWords {
	switch {
	case !s.OK:
		return stateWords{"failing", "failing", problemOf(s).word}
	case !s.Led:
		return stateWords{"waiting", "waiting", "Not led"}
	case s.OtherDesk:
		return stateWords{"held", "held", "Of another desk"}
	case s.Parked > 0:
		return stateWords{"held", "held", "Held"}
	case seconds(s.OldestDueSeconds) >= lateFrom:
		return stateWords{"waiting", "waiting", "Late"}
	}
	return stateWords{"fine", "fine", "Led"}
}

// saySource says how a source stands, behind its name and without a full stop, and what to do about it.
func saySource(s api.Source) (verb, more string) {
	switch words := sourceWords(s); {
	case !s.OK:
		p := problemOf(s)
		return p.verb, p.do + " It is tried again by itself. Its events wait in its table, and it keeps no other source back."
	case !s.Led:
		return fmt.Sprintf("has no leader, and %s there", some(waiting(s), "event waits", "events wait")),
			"See that postrider serve runs with this source and reaches its database. A source with sleep has a leader only while it is looked at."
	case s.OtherDesk:
		return "obeys another desk", "Its events go on. It refuses what is done here to the ones that were given up: take it out of the settings of one of the two desks."
	case s.Parked > 0:
		return "has " + some(s.Parked, "event", "events") + " behind holds", "“postrider outbox holds” with the address of its database lists its holds, and what each waits for."
	case words.Mark != "fine":
		return fmt.Sprintf("is late: %s, the oldest for %s", some(s.Pending, "event waits", "events wait"), ageText(seconds(s.OldestDueSeconds))),
			"Nothing is lost: they stay in its table, in order. Its leader and brokers that answer send them."
	}
	return "has a leader, and no event is late", ""
}

// saySources is the worst of them, which are in this order.
func saySources(all []sourceRow) say {
	if len(all) == 0 {
		return say{Mark: "quiet", Text: "The settings name no source.", More: "Postrider carries the outbox of database.url alone. The sections sources and sources_dir of the settings name further databases."}
	}
	worst := all[0]
	verb, more := saySource(worst.Source)
	who := clip(worst.Name, 60) + " "
	others := ""
	if worst.Words.Mark == "fine" && len(all) > 1 {
		who = "each "
	} else if n := len(slices.DeleteFunc(slices.Clone(all[1:]), func(r sourceRow) bool { return r.Words.Mark == "fine" })); n > 0 {
		others = "; " + some(n, "other needs a look", "others need a look")
	}
	return say{Mark: worst.Words.Mark, Text: some(len(all), "source", "sources") + ": " + who + verb + others + ".", More: more}
}

// sourcesOf is all of them, the worst first; of equal ones the one whose oldest event is due for longest.
func sourcesOf(found api.Sources) sourcesView {
	view := sourcesView{LookedAt: found.LookedAt, Count: len(found.Items), Removed: found.Removed}
	for _, s := range found.Items {
		view.Sources = append(view.Sources, sourceRow{s, sourceWords(s), "/sources/" + url.PathEscape(s.Name)})
	}
	slices.SortStableFunc(view.Sources, func(a, b sourceRow) int {
		return cmp.Or(worse(a.Words, b.Words), cmp.Compare(b.OldestDueSeconds, a.OldestDueSeconds))
	})
	view.Say = saySources(view.Sources)
	return view
}

// lookAtSources is what a look at all sources finds. It takes long where a database does not answer.
func lookAtSources(v *visit) (sourcesView, error) {
	v.mayTake(httpapi.ReportLimit)
	found, err := get[api.Sources](v, "/sources", nil)
	return sourcesOf(found), err
}

func showSources(v *visit) error {
	view, err := lookAtSources(v)
	if err != nil {
		return err
	}
	view.Sources, view.More, view.First = slicePage(v, view.Sources, listed, "from", "#sources")
	v.frame.View = view
	return nil
}

func showSource(v *visit) error {
	all, err := lookAtSources(v)
	if err != nil {
		return err
	}
	name := v.PathValue("name")
	i := slices.IndexFunc(all.Sources, func(s sourceRow) bool { return s.Name == name })
	if i < 0 {
		return &httpapi.Error{Code: httpapi.NotFound, Message: fmt.Sprintf("The settings name no source %q", oneLine(name, 200))}
	}
	v.frame.under(crumb{"Sources", "/sources"}, name)
	v.frame.View = sourceOf(all.Sources[i], all.LookedAt)
	return nil
}

func sourceOf(row sourceRow, lookedAt time.Time) sourceView {
	verb, more := saySource(row.Source)
	return sourceView{row, say{Mark: row.Words.Mark, Text: clip(row.Name, 60) + " " + verb + ".", More: more}, lookedAt}
}
