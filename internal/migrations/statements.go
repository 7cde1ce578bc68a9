package migrations

import (
	"errors"
	"fmt"
	"strings"
)

// statement is one SQL statement of a file.
type statement struct {
	text       string // without its semicolon and surrounding space and comments before it
	line       int    // where text starts, from 1
	terminated bool   // a semicolon follows
}

// checkStatements refuses what the runner cannot run in its own transaction.
func checkStatements(sql string) error {
	statements := splitStatements(sql)
	if len(statements) == 0 {
		return errors.New("there is no SQL statement in it")
	}
	for _, s := range statements {
		words := strings.Fields(strings.ToLower(s.text))
		switch words[0] {
		case "begin", "commit", "end", "rollback", "abort", "start", "savepoint", "release":
		case "prepare":
			if len(words) < 2 || words[1] != "transaction" {
				continue
			}
		default:
			continue
		}
		return fmt.Errorf("line %d: %s is not allowed: the runner puts each migration in a transaction of its own",
			s.line, strings.ToUpper(words[0]))
	}
	return nil
}

// splitStatements cuts SQL at the semicolons that end statements: the ones outside of strings,
// quoted names, dollar quotes, comments, parentheses and the BEGIN ATOMIC bodies of SQL
// functions. Statements without content are left out, as the server leaves them out, so that
// the n-th statement here is the n-th that the server answers. The runner never executes the
// pieces; they serve messages and checks.
func splitStatements(sql string) []statement {
	sc := splitter{sql: sql, start: -1}
	for sc.pos < len(sql) {
		sc.step()
	}
	sc.end(false)
	return sc.out
}

type splitter struct {
	sql    string
	pos    int
	start  int // where the current statement's text begins, -1 before it
	out    []statement
	parens int
	bodies int      // open BEGIN ATOMIC, and CASE inside of them
	words  []string // the first words of the statement
}

// step consumes one token.
func (s *splitter) step() {
	c, rest := s.sql[s.pos], s.sql[s.pos:]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v':
		s.pos++
		return
	case strings.HasPrefix(rest, "--"):
		s.skipPast("\n", 2)
		return
	case strings.HasPrefix(rest, "/*"):
		s.skipBlockComment()
		return
	case c == ';' && s.parens == 0 && s.bodies == 0:
		s.end(true)
		s.pos++
		return
	}
	if s.start < 0 {
		s.start = s.pos
	}
	switch {
	case c == '\'':
		s.skipString(false)
	case c == '"':
		s.skipPast(`"`, 1)
	case c == '$':
		s.skipDollarQuote()
	case isNameStart(c):
		s.word()
	case c >= '0' && c <= '9':
		for s.pos < len(s.sql) && isNamePart(s.sql[s.pos]) {
			s.pos++
		}
	default:
		if c == '(' {
			s.parens++
		} else if c == ')' && s.parens > 0 {
			s.parens--
		}
		s.pos++
	}
}

func (s *splitter) end(terminated bool) {
	if s.start >= 0 {
		s.out = append(s.out, statement{
			text:       strings.TrimSpace(s.sql[s.start:s.pos]),
			line:       1 + strings.Count(s.sql[:s.start], "\n"),
			terminated: terminated,
		})
	}
	s.start, s.parens, s.bodies, s.words = -1, 0, 0, nil
}

// word consumes a name or keyword, keeps the first four of a statement, and follows the
// nesting of SQL function bodies.
func (s *splitter) word() {
	from := s.pos
	for s.pos < len(s.sql) && isNamePart(s.sql[s.pos]) {
		s.pos++
	}
	w := strings.ToLower(s.sql[from:s.pos])
	if w == "e" && s.pos < len(s.sql) && s.sql[s.pos] == '\'' {
		s.skipString(true)
		return
	}
	if len(s.words) < 4 {
		s.words = append(s.words, w)
	}
	if !s.createsRoutine() || s.parens > 0 {
		return
	}
	switch {
	case w == "begin", w == "case" && s.bodies > 0:
		s.bodies++
	case w == "end" && s.bodies > 0:
		s.bodies--
	}
}

func (s *splitter) createsRoutine() bool {
	w := s.words
	if len(w) > 0 && w[0] == "create" {
		w = w[1:]
	} else {
		return false
	}
	if len(w) > 1 && w[0] == "or" && w[1] == "replace" {
		w = w[2:]
	}
	return len(w) > 0 && (w[0] == "function" || w[0] == "procedure")
}

// skipPast moves behind the next mark, looked for from offset on, or to the end.
func (s *splitter) skipPast(mark string, offset int) {
	at := strings.Index(s.sql[min(s.pos+offset, len(s.sql)):], mark)
	if at < 0 {
		s.pos = len(s.sql)
		return
	}
	s.pos += offset + at + len(mark)
}

func (s *splitter) skipBlockComment() {
	depth := 0
	for s.pos < len(s.sql) {
		rest := s.sql[s.pos:]
		switch {
		case strings.HasPrefix(rest, "/*"):
			depth++
			s.pos += 2
		case strings.HasPrefix(rest, "*/"):
			depth--
			s.pos += 2
			if depth == 0 {
				return
			}
		default:
			s.pos++
		}
	}
}

// skipString consumes a string from its opening quote. A doubled quote reads as two adjacent
// strings, which ends at the same place.
func (s *splitter) skipString(backslashes bool) {
	for s.pos++; s.pos < len(s.sql); s.pos++ {
		switch c := s.sql[s.pos]; {
		case c == '\\' && backslashes:
			s.pos++
		case c == '\'' && backslashes && strings.HasPrefix(s.sql[s.pos:], "''"):
			s.pos++
		case c == '\'':
			s.pos++
			return
		}
	}
	s.pos = len(s.sql) // a string without end, or a backslash as the last byte
}

func (s *splitter) skipDollarQuote() {
	end := s.pos + 1
	for end < len(s.sql) && s.sql[end] != '$' && isNamePart(s.sql[end]) {
		end++
	}
	tag := s.sql[s.pos+1 : end]
	if end == len(s.sql) || s.sql[end] != '$' || (tag != "" && !isNameStart(tag[0])) {
		s.pos++ // a parameter like $1, or a stray dollar
		return
	}
	s.skipPast("$"+tag+"$", len(tag)+2)
}

func isNameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func isNamePart(c byte) bool { return isNameStart(c) || c == '$' || c >= '0' && c <= '9' }
