package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/debezium"
	"github.com/postrider/postrider/internal/wire"
)

// advice returns our settings that do what the connector does, and the command to go on with.
func (e *examination) advice(r Report) (rules, next string) {
	again := "mend what is refused, and run postrider debezium check again"
	if len(e.columns) == 0 {
		return "", again
	}
	var text strings.Builder
	text.WriteString("topics:\n")
	for _, match := range e.matches() {
		rule, err := e.rule(match.value)
		if err != nil {
			return "", again
		}
		// The shadow beside the connector is to have the same bytes.
		for _, glob := range []string{match.glob, shadowPrefix + match.glob} {
			e.writeRule(&text, glob, match.note, rule)
		}
	}
	if r.Verdict == debezium.Refused {
		return text.String(), again
	}
	return text.String(), e.shadow()
}

// shadowPrefix begins the topics of postrider debezium shadow, by default.
const shadowPrefix = "shadow."

// writeRule writes one rule of the section topics. A glob may begin with a star, which is an alias in YAML where it is not quoted.
func (e *examination) writeRule(text *strings.Builder, glob, note string, rule wire.Rule) {
	fmt.Fprintf(text, "  - match: %q%s\n", glob, note)
	if !e.KeysLocked {
		text.WriteString("    commit_order: true\n")
	}
	text.WriteString("    wire:\n")
	for _, line := range rule.Settings() {
		fmt.Fprintf(text, "      %s\n", line)
	}
}

// match is a rule's topics, the value of the route's column that they have, where the rule depends on it, and a comment.
type match struct{ glob, value, note string }

// matches are the topics of the rules: one pattern where the router puts a text before or behind what it takes from the
// column, and otherwise each topic by its name.
func (e *examination) matches() []match {
	rule, err := e.rule("x")
	perValue := err == nil && rule.SchemaName != ""
	before, _, _ := strings.Cut(e.connector.Router.Replacement, "$")
	behind := e.connector.Router.Replacement[strings.LastIndexAny(e.connector.Router.Replacement, "}0123456789$")+1:]
	everything := e.connector.Router.Regex == "(?<routedByValue>.*)" || e.connector.Router.Regex == "(.*)"
	if strings.Contains(e.connector.Router.Replacement, "$") && everything && (len(before) > 1 || len(behind) > 1) && !perValue {
		return []match{{glob: before + "*" + behind}}
	}
	var all []match
	for _, topic := range slices.Sorted(slices.Values(e.topics)) {
		all = append(all, match{glob: topic, value: e.routes[topic]})
	}
	if len(all) == 0 {
		all = []match{{glob: "TOPIC", value: "AGGREGATETYPE", note: " # write a rule for each topic; the table has no rows that say which there are"}}
	}
	return all
}

// shadow is the command that sends the table's rows beside the connector.
func (e *examination) shadow() string {
	return "postrider debezium shadow " + shellWord(identifier(e.table.schema)+"."+identifier(e.table.name)) + " --connector " + shellWord(e.From)
}

// identifier is a name as SQL takes it.
func identifier(name string) string {
	if plain.MatchString(name) {
		return name
	}
	return pgx.Identifier{name}.Sanitize()
}

var plain = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// shellWord quotes a word for a shell where it needs it.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:,/-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
