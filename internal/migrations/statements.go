package migrations

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// statement is one SQL statement of a file.
type statement struct {
	text       string // without its semicolon, and without space and comments around it
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

// opening begins what may have a semicolon that ends no statement: a comment, a string, a quoted name, a body. It is looked
// for where one of openingBytes is: regexp is slow at a search through a whole text, and every process reads all files.
var opening = regexp.MustCompile(`^(?:--|/\*|'|"|\$[A-Za-z_]*\$)`)

const openingBytes = `-/'"$`

// closing ends what is not ended by its own opening.
var closing = map[string]string{"--": "\n", "/*": "*/"}

// splitStatements cuts the SQL of this package at the semicolons that end statements. Its only uses are errors and checks;
// the runner sends a file whole, and the server reads it. An error of the server has a position only where it is about a
// name or about syntax. For the others, a lock that was waited for in vain or rows that break a constraint, the server says
// how many statements were completed, and this finds the line of the next.
//
// It does not know all of SQL: no quotes behind a backslash, no comments in comments, no BEGIN ATOMIC. A test compares how
// many statements it finds in each file with how many the server completes.
func splitStatements(sql string) []statement {
	bare := []byte(sql) // blank where comments are, and without what is quoted
	for at := 0; at < len(sql); {
		next := strings.IndexAny(sql[at:], openingBytes)
		if next < 0 {
			break
		}
		from := at + next
		mark, filler := opening.FindString(sql[from:]), byte('x')
		if mark == "" { // a minus, a division, a parameter
			at = from + 1
			continue
		}
		end := from + len(mark)
		until, comment := closing[mark]
		if comment {
			filler = ' '
		} else {
			until = mark
		}
		if n := strings.Index(sql[end:], until); n >= 0 {
			at = end + n + len(until)
		} else {
			at = len(sql)
		}
		copy(bare[from:at], bytes.Repeat([]byte{filler}, at-from))
	}
	var all []statement
	for from, end := 0, 0; from < len(bare); from = end + 1 {
		end = len(bare)
		if n := bytes.IndexByte(bare[from:], ';'); n >= 0 {
			end = from + n
		}
		piece := bytes.TrimSpace(bare[from:end])
		if len(piece) == 0 {
			continue
		}
		start := from + bytes.Index(bare[from:end], piece)
		all = append(all, statement{
			text:       sql[start : start+len(piece)],
			line:       1 + strings.Count(sql[:start], "\n"),
			terminated: end < len(bare),
		})
	}
	return all
}
