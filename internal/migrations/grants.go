package migrations

import (
	"fmt"
	"regexp"
	"strings"
)

// Grant is one right that RolesScript gives.
type Grant struct {
	// Role has it, for example postrider_relay.
	Role string
	// Privilege is the word of SQL, in lower case: select, execute, usage …
	Privilege string
	// Kind is what Name names: schema, table, sequence, function, or all tables (of the schema Name).
	Kind, Name string
	// Columns of the table, if the right is for some only.
	Columns []string
}

var (
	scriptComment = regexp.MustCompile(`(?m)--.*$`)
	scriptBlock   = regexp.MustCompile(`(?s)do \$\$.*?\$\$;`)
	grantForm     = regexp.MustCompile(`(?s)^grant (.+?) on (schema |sequence |function |all tables in schema )?(.+) to ([a-z_, ]+)$`)
	privilegeForm = regexp.MustCompile(`^([a-z]+)(?: \((.+)\))?$`)
)

// Grants returns the rights that RolesScript grants, one by one, so that a login that holds all rights of a role can be
// told from one that does not. The script is the only place where the rights are written down.
func Grants(parts []Part) ([]Grant, error) {
	var all []Grant
	script := scriptBlock.ReplaceAllString(scriptComment.ReplaceAllString(RolesScript(parts), ""), "")
	for statement := range strings.SplitSeq(script, ";") {
		statement = strings.Join(strings.Fields(statement), " ")
		if !strings.HasPrefix(statement, "grant ") {
			continue
		}
		m := grantForm.FindStringSubmatch(statement)
		if m == nil {
			return nil, fmt.Errorf("migrations: the script of roles has a grant that is not understood: %s", statement)
		}
		kind := "table"
		switch m[2] {
		case "schema ", "sequence ", "function ":
			kind = strings.TrimSpace(m[2])
		case "all tables in schema ":
			kind = "all tables"
		}
		for _, privilege := range outside(m[1]) {
			word := privilegeForm.FindStringSubmatch(privilege)
			if word == nil {
				return nil, fmt.Errorf("migrations: the script of roles grants %q, which is not understood", privilege)
			}
			var columns []string
			if word[2] != "" {
				columns = outside(word[2])
			}
			for _, name := range outside(m[3]) {
				for _, role := range outside(m[4]) {
					all = append(all, Grant{Role: role, Privilege: word[1], Kind: kind, Name: name, Columns: columns})
				}
			}
		}
	}
	return all, nil
}

// outside splits at the commas that are outside of parentheses.
func outside(list string) []string {
	var parts []string
	depth, begin := 0, 0
	for i, r := range list {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			parts = append(parts, strings.TrimSpace(list[begin:i]))
			begin = i + 1
		}
	}
	return append(parts, strings.TrimSpace(list[begin:]))
}
