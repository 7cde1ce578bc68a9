package debezium

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Verdict is what becomes of a knob.
type Verdict string

const (
	// Same: consumers get the same.
	Same Verdict = "same"
	// Differs: something is to be set, here or at the connector, or is to be known.
	Differs Verdict = "differs"
	// Refused: Postrider does not do what the connector does.
	Refused Verdict = "refused"
	// NotLookedAt: the knob is not known here.
	NotLookedAt Verdict = "not looked at"
)

// Knob is one setting of a connector, and what becomes of it.
type Knob struct {
	// Name is the setting's full name.
	Name string `json:"name"`
	// Value is what it is set to, or its default. It is left out where it may have a password in it.
	Value string `json:"value,omitempty"`
	// Default says that the connector does not set it.
	Default bool `json:"default,omitempty"`
	// Verdict is same, differs, refused or not looked at.
	Verdict Verdict `json:"verdict"`
	// Says is what that means for the records.
	Says string `json:"says,omitempty"`
	// Do is what to set or change; empty where nothing is to be done.
	Do string `json:"do,omitempty"`
}

// Ours are settings of Postrider that knobs are compared with.
type Ours struct {
	// Compression is kafka.compression.
	Compression string
	// MaxMessageBytes is kafka.max_message_bytes, in bytes.
	MaxMessageBytes int
	// MayCreateTopics is kafka.allow_topic_creation.
	MayCreateTopics bool
}

// opinion is a Knob without its name and value.
type opinion struct {
	verdict  Verdict
	says, do string
}

func same(format string, args ...any) opinion { return opinion{Same, fmt.Sprintf(format, args...), ""} }

func differs(do, format string, args ...any) opinion {
	return opinion{Differs, fmt.Sprintf(format, args...), do}
}

func refused(do, format string, args ...any) opinion {
	return opinion{Refused, fmt.Sprintf(format, args...), do}
}

// subject is what a rule looks at.
type subject struct {
	Connector
	ours Ours
	all  Properties
	name string // of the knob
}

// rule judges one knob, or all whose names begin alike where its name ends in a *.
type rule struct {
	name string
	// standard is Debezium's default.
	standard string
	// always lists the knob when it is not set, too.
	always bool
	// hidden keeps the value back: it may be a password, or have one in it.
	hidden bool
	judge  func(s subject, value string) opinion
}

// says is a rule's judge that does not look at the value.
func says(format string, args ...any) func(subject, string) opinion {
	return func(subject, string) opinion { return same(format, args...) }
}

// Judge says of each knob of a connector what becomes of it: first the router's, then the converters', then the connector's,
// and last the knobs that are not looked at. c is what p.Read returned.
func Judge(p Properties, c Connector, ours Ours) []Knob {
	s := subject{Connector: c, ours: ours, all: p}
	judged := map[string]bool{"name": true, "connector.class": true, "transforms": true, "predicates": true}
	var knobs []Knob
	add := func(name, value string, standard, hidden bool, o opinion) {
		if hidden {
			value = ""
		}
		knobs = append(knobs, Knob{name, value, standard, o.verdict, o.says, o.do})
		judged[name] = true
	}
	prefix := "transforms." + c.Alias + "."
	judged[prefix+"type"] = true
	for _, group := range []struct {
		prefix string
		rules  []rule
	}{{prefix, routerRules}, {"", converterRules}, {"", connectorRules}} {
		for _, r := range group.rules {
			if begin, wild := strings.CutSuffix(r.name, "*"); wild {
				for _, name := range p.names() {
					if strings.HasPrefix(name, group.prefix+begin) && !judged[name] {
						s.name = name
						add(name, p[name], false, true, r.judge(s, strings.TrimSpace(p[name])))
					}
				}
				continue
			}
			s.name = group.prefix + r.name
			given := strings.TrimSpace(p[s.name])
			if given == "" && !r.always {
				judged[s.name] = true
				continue
			}
			value := p.get(s.name, r.standard)
			add(s.name, value, given == "", r.hidden, r.judge(s, value))
		}
	}
	knobs = append(knobs, p.otherTransforms(c, judged)...)
	for _, name := range p.names() {
		if !judged[name] {
			knobs = append(knobs, Knob{Name: name, Verdict: NotLookedAt})
		}
	}
	return knobs
}

// otherTransforms refuses transforms beside the router, and predicates, and marks their settings as judged.
func (p Properties) otherTransforms(c Connector, judged map[string]bool) []Knob {
	var knobs []Knob
	mark := func(prefix string) {
		for name := range p {
			if strings.HasPrefix(name, prefix) {
				judged[name] = true
			}
		}
	}
	chain := list(p["transforms"])
	for _, alias := range chain {
		if alias == c.Alias {
			continue
		}
		name := "transforms." + alias + ".type"
		mark("transforms." + alias + ".")
		o := refused("take it out of the chain at the connector and compare again, or let consumers do what it does", "a transform beside the event router changes records, or drops them")
		if smt := smallTransforms[shortClass(p[name])]; smt.says != "" {
			o = smt
		}
		knobs = append(knobs, Knob{Name: name, Value: p.get(name, "?"), Verdict: o.verdict, Says: o.says, Do: o.do})
	}
	if predicate := p["transforms."+c.Alias+".predicate"]; predicate != "" {
		name := "transforms." + c.Alias + ".predicate"
		judged[name], judged["transforms."+c.Alias+".negate"] = true, true
		knobs = append(knobs, Knob{Name: name, Value: predicate, Verdict: Refused,
			Says: "the router works on records that the predicate picks, and the others go to the topics of their tables",
			Do:   "if table.include.list has the outbox alone, the predicate picks nothing: take it out and compare again"})
	}
	for _, predicate := range list(p["predicates"]) {
		mark("predicates." + predicate + ".")
	}
	return knobs
}

// smallTransforms are opinions on transforms that are often beside a router.
var smallTransforms = map[string]opinion{
	"ByLogicalTableRouter": refused("take it out of the chain: partitions of an outbox go through the same trigger", "it gives the tables of several partitions one topic, before the router reads them"),
}

func shortClass(class string) string {
	class = strings.TrimSpace(class)
	class, _, _ = strings.Cut(class, "$")
	return class[strings.LastIndexAny(class, ".")+1:]
}

// Worst is the verdict over all: refused before differs before same.
func Worst(knobs []Knob) Verdict {
	for _, v := range []Verdict{Refused, Differs} {
		if slices.ContainsFunc(knobs, func(k Knob) bool { return k.Verdict == v }) {
			return v
		}
	}
	return Same
}

// quantifier is what makes a name a regular expression of several tables.
var quantifier = regexp.MustCompile(`[*+?|\[\](){}^$]`)
