package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider/cmd/internal/api"
	"github.com/postrider/postrider/cmd/internal/doctor"
	"github.com/postrider/postrider/cmd/internal/httpapi"
)

// consumersView are the topics that Postrider uses and the consumer groups that read them, as the brokers say.
type consumersView struct {
	Say say
	// LookedAt is when the brokers were asked for groups.
	LookedAt time.Time
	// Groups are a page of GroupCount, standing groups first. Topics are a page of TopicCount, topics with a problem first.
	Groups                 []groupRow
	Topics                 []topicRow
	GroupCount, TopicCount int
	// Picked is the group that was asked for, with a page of its partitions; nil for none.
	Picked *groupRow
	// MoreGroups, MoreTopics, MorePartitions and First are addresses of other pages; empty for none.
	MoreGroups, MoreTopics, MorePartitions, First string
	// GroupExports and TopicExports are the two lists as files.
	GroupExports, TopicExports exports
}

// groupRow is a line of a list of consumer groups.
type groupRow struct {
	api.ConsumerGroup
	Words stateWords
	// Path is the page with its partitions.
	Path string
}

// topicRow is a line of a list of topics.
type topicRow struct {
	api.Topic
	Words stateWords
	// For says in words what it is used for.
	For string
}

// useWords are what topics are used for.
var useWords = map[api.TopicUse]string{api.UsedForEvents: "events", api.UsedForDeadLetters: "dead letters", api.UsedForLifecycle: "events about tasks",
	api.UsedForCollecting: "collected", api.UsedForRetries: "retries of consumers"}

func consumerWords(g api.ConsumerGroup) stateWords {
	switch {
	case g.Problem != nil:
		return stateWords{"waiting", "waiting", "Not known"}
	case g.Standing > 0:
		return stateWords{"failing", "failing", "Stands"}
	case g.Members == 0 && g.Lag > 0:
		return stateWords{"waiting", "waiting", "No member"}
	case slices.ContainsFunc(g.Partitions, func(p api.ConsumedPartition) bool { return p.Lag == nil }):
		return stateWords{"waiting", "waiting", "Not known"}
	case g.Members == 0:
		return stateWords{"quiet", "quiet", "No member"}
	case len(g.Partitions) == 0: // it has committed nothing, or commits nothing as share groups do
		return stateWords{"quiet", "quiet", "No offset known"}
	}
	return stateWords{"fine", "fine", "Moves"}
}

func partitionWords(p api.ConsumedPartition) stateWords {
	switch {
	case p.Lag == nil:
		return stateWords{"waiting", "waiting", "Not known"}
	case p.Standing:
		return stateWords{"failing", "failing", "Stands"}
	}
	return stateWords{"fine", "fine", "Moves"}
}

func topicWords(t api.Topic) stateWords {
	switch {
	case !t.Exists && t.Waits:
		return stateWords{"failing", "failing", "Missing"}
	case !t.Exists:
		return stateWords{"waiting", "waiting", "Missing"}
	case t.Problem != nil:
		return stateWords{"waiting", "waiting", "Not known"}
	case t.Leaderless > 0:
		return stateWords{"failing", "failing", "No leader"}
	case t.UnderReplicated > 0:
		return stateWords{"waiting", "waiting", "Too few copies"}
	}
	return stateWords{"fine", "fine", "Fine"}
}

// worse orders by the mark, what hurts first.
func worse(a, b stateWords) int {
	order := []string{"failing", "held", "waiting", "fine", "quiet"}
	return slices.Index(order, a.Mark) - slices.Index(order, b.Mark)
}

func showConsumers(v *visit) error {
	topics, err := get[api.Topics](v, "/topics", nil)
	if err != nil {
		return err
	}
	groups, err := get[api.ConsumerGroups](v, "/consumers", nil)
	if err != nil {
		return err
	}
	view := consumersOf(topics, groups)
	view.GroupExports, view.TopicExports = v.exports("/consumers/export", nil), v.exports("/consumers/topics/export", nil)
	if asked := v.param("group"); asked != "" {
		i := slices.IndexFunc(view.Groups, func(g groupRow) bool { return g.Name == asked })
		if i < 0 {
			return &httpapi.Error{Code: httpapi.NotFound, Message: "No consumer group " + oneLine(asked, 200) + " reads a topic that Postrider uses"}
		}
		picked := view.Groups[i]
		picked.Partitions, view.MorePartitions, _ = slicePage(v, picked.Partitions, listed, "partitions", "#group")
		view.Picked = &picked
	}
	for i := range view.Groups {
		view.Groups[i].Path = v.with("group", view.Groups[i].Name, "partitions", "") + "#group"
	}
	view.Groups, view.MoreGroups, _ = slicePage(v, view.Groups, listed, "groups", "#groups")
	view.Topics, view.MoreTopics, _ = slicePage(v, view.Topics, listed, "topics", "#topics")
	if v.param("groups") != "" || v.param("topics") != "" || v.param("partitions") != "" {
		view.First = v.with("groups", "", "topics", "", "partitions", "")
	}
	v.frame.View = view
	return nil
}

// consumersOf is all of both, what hurts first.
func consumersOf(topics api.Topics, groups api.ConsumerGroups) consumersView {
	view := consumersView{LookedAt: groups.LookedAt, GroupCount: len(groups.Items), TopicCount: len(topics.Items), Say: sayConsumers(topics.Items, groups.Items, groups.Incomplete)}
	for _, t := range topics.Items {
		var uses []string
		for _, use := range t.Uses {
			uses = append(uses, useWords[use])
		}
		view.Topics = append(view.Topics, topicRow{t, topicWords(t), strings.Join(uses, ", ")})
	}
	for _, g := range groups.Items {
		view.Groups = append(view.Groups, groupRow{ConsumerGroup: g, Words: consumerWords(g)})
	}
	slices.SortStableFunc(view.Topics, func(a, b topicRow) int { return worse(a.Words, b.Words) })
	slices.SortStableFunc(view.Groups, func(a, b groupRow) int { return worse(a.Words, b.Words) })
	return view
}

// sayConsumers is the worst of topics and groups. incomplete is why groups may be missing; nil where none is.
func sayConsumers(topics []api.Topic, groups []api.ConsumerGroup, incomplete *string) say {
	named := map[string][]string{} // by what is wrong, the worst of each
	for _, t := range topics {
		if w := topicWords(t); w.Mark != "fine" {
			problem := w.Mark + " " + w.Word
			named[problem] = append(named[problem], t.Name)
		}
	}
	reading := 0
	for _, g := range groups {
		w := consumerWords(g)
		if w.Mark == "fine" {
			reading++
		}
		problem := w.Mark + " " + w.Word
		named[problem] = append(named[problem], g.Name)
	}
	for _, p := range []struct{ problem, one, many, more string }{
		{"failing Missing", "topic is missing", "topics are missing", "Events for it wait and are not lost. Create it, or allow this login to see and write it."},
		{"failing No leader", "topic has a partition without a leader", "topics have a partition without a leader", "Nothing can be written to such a partition. It waits for a broker."},
		{"failing Stands", "consumer group stands", "consumer groups stand",
			"Messages wait there, and nothing was committed for 30 seconds or more. Look at what the group does; a message that it cannot treat may be first."},
		{"waiting Not known", "topic or group is not known", "topics and groups are not known", "The lists say why."},
		{"waiting Missing", "topic is missing", "topics are missing", "No event waits for it. Create it before events are written for it."},
		{"waiting No member", "consumer group has messages to read and no member", "consumer groups have messages to read and no member", "Messages wait there until a member reads them."},
		{"waiting Too few copies", "topic has too few copies in sync", "topics have too few copies in sync", "It works. A broker that is away or slow makes it so."},
	} {
		if strings.HasPrefix(p.problem, "waiting") && incomplete != nil {
			break
		}
		if names := named[p.problem]; len(names) > 0 {
			mark, _, _ := strings.Cut(p.problem, " ")
			return say{Mark: mark, Text: some(len(names), p.one, p.many) + ": " + nameList(names, 3) + ".", More: p.more}
		}
	}
	if incomplete != nil {
		return say{Mark: "waiting", Text: "Consumer groups may be missing here.", More: "A broker did not list its groups: " + oneLine(*incomplete, 300)}
	}
	return say{Mark: "fine", Text: fmt.Sprintf("%s there, and %s.", some(len(topics), "topic is", "topics are"), some(reading, "consumer group reads on", "consumer groups read on"))}
}

// doctorView is what the doctor found, what hurts first.
type doctorView struct {
	doctor.Report
	Say      say
	Findings []findingRow
}

// findingRow is a line of it.
type findingRow struct {
	doctor.Finding
	Words stateWords
}

func verdictWords(v doctor.Verdict) stateWords {
	switch v {
	case doctor.Failed:
		return stateWords{"failing", "failing", "Failed"}
	case doctor.Warning:
		return stateWords{"waiting", "waiting", "Warning"}
	case doctor.OK:
		return stateWords{"fine", "fine", "Fine"}
	}
	return stateWords{"quiet", "quiet", "Not looked at"}
}

func showDoctor(v *visit) error {
	v.mayTake(httpapi.ReportLimit)
	report, err := get[doctor.Report](v, "/doctor", nil)
	if err != nil {
		return err
	}
	v.frame.View = doctorOf(report)
	return nil
}

func doctorOf(r doctor.Report) doctorView {
	view := doctorView{Report: r}
	for _, f := range r.Findings {
		view.Findings = append(view.Findings, findingRow{f, verdictWords(f.Verdict)})
	}
	slices.SortStableFunc(view.Findings, func(a, b findingRow) int { return worse(a.Words, b.Words) })
	switch {
	case r.Failed > 0:
		view.Say = say{Mark: "failing", Text: fmt.Sprintf("%s failed of %d.", some(r.Failed, "check", "checks"), len(r.Findings)), More: "Postrider does not work like that, or not all of it."}
	case r.Warnings > 0:
		view.Say = say{Mark: "waiting", Text: fmt.Sprintf("Postrider works; %s.", some(r.Warnings, "check warns", "checks warn"))}
	default:
		view.Say = say{Mark: "fine", Text: "Everything that Postrider depends on is as it should be."}
	}
	if r.Skipped > 0 {
		view.Say.More = strings.TrimSpace(view.Say.More + " " + some(r.Skipped, "check was", "checks were") + " not made.")
	}
	return view
}
