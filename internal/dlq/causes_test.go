package dlq

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// caused is a letter of the file of causes.
type caused struct {
	cause  string
	letter Letter
}

// readCauses reads a file of causes; the first lines of testdata/causes.txt say how it is written.
func readCauses(t *testing.T, file string) []caused {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all []caused
	var cause, field string
	fields := map[string]string{}
	for n, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		name, rest, _ := strings.Cut(line, ":")
		rest = strings.TrimPrefix(rest, " ")
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "= "):
			cause, fields = strings.TrimSpace(line[2:]), map[string]string{}
		case strings.HasPrefix(line, "  "):
			fields[field] += "\n" + line[2:]
		case name == "values":
			filled := func(text string) string {
				for i, value := range strings.Split(rest, "|") {
					text = strings.ReplaceAll(text, "{"+strconv.Itoa(i+1)+"}", strings.TrimSpace(value))
				}
				return text
			}
			l := letterFor(fields["code"], fields["class"], storableText(filled(fields["message"]), maxMessageBytes), "orders")
			l.Root = rootOf(l.ErrorCode, filled(fields["message"]), filled(fields["stack"]))
			all = append(all, caused{cause, *l})
		case name == "code" || name == "class" || name == "message" || name == "stack":
			field = name
			fields[name] = rest
		case strings.TrimSpace(line) != "":
			t.Fatalf("line %d is not understood: %q", n+1, line)
		default:
			if field == "stack" && fields["stack"] != "" {
				fields["stack"] += "\n"
			}
		}
	}
	return all
}

// TestGroupsAreCauses: of the letters of one cause, most are in one group, and a group has the letters of one cause. Precision
// is how many of the pairs in one group are of one cause, recall how many of the pairs of one cause are in one group.
func TestGroupsAreCauses(t *testing.T) {
	t.Parallel()
	for file, reached := range map[string]struct {
		letters           int
		precision, recall float64
	}{"causes.txt": {400, 1, 1}, "causes_unseen.txt": {70, 1, 0.96}} {
		all := readCauses(t, file)
		precision, recall := judged(t, all)
		t.Logf("%s, %d letters: precision %.4f, recall %.4f", file, len(all), precision, recall)
		if len(all) < reached.letters || precision < reached.precision || recall < reached.recall {
			t.Errorf("%s: lower than %+v, which was reached", file, reached)
		}
	}
}

// judged returns precision and recall of the groups of letters, and logs what is wrong.
func judged(t *testing.T, all []caused) (precision, recall float64) {
	t.Helper()
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = FingerprintOf(&all[i].letter).ID
	}
	var together, ofOne, right float64
	told := map[string]bool{}
	for i := range all {
		for j := range i {
			grouped, same := ids[i] == ids[j], all[i].cause == all[j].cause
			if grouped {
				together++
			}
			if same {
				ofOne++
			}
			if grouped && same {
				right++
			}
			if pair := all[j].cause + "/" + all[i].cause; grouped != same && !told[pair] {
				told[pair] = true
				t.Logf("grouped: %v, one cause: %v\n %s: %+v\n %s: %+v", grouped, same, all[j].cause, FingerprintOf(&all[j].letter).Parts, all[i].cause, FingerprintOf(&all[i].letter).Parts)
			}
		}
	}
	return right / together, right / ofOne
}

// TestCausesHaveWhatPeopleLookFor: what is stored of a real trace is short enough, and stays the same when it is read again.
func TestCausesHaveWhatPeopleLookFor(t *testing.T) {
	t.Parallel()
	causes, frames := 0, 0
	for _, c := range readCauses(t, "causes.txt") {
		checkRoot(t, c.letter.Root)
		if c.letter.Root.Cause() != "" {
			causes++
		}
		if c.letter.Root.Frame != "" {
			frames++
		}
		// An investigation, which has no stack trace in its columns, has the text of the narrower group.
		f := FingerprintOf(&c.letter)
		e := Entry{ErrorCode: c.letter.ErrorCode, ErrorMessage: c.letter.ErrorMessage, Reason: c.letter.Reason, Topic: c.letter.OriginTopic,
			RootCause: c.letter.Root.Cause(), RootFrame: c.letter.Root.Frame}
		if exact := e.exactly(f.Parts); exact.fingerprint() != f.Exact {
			t.Errorf("%s: %+v, want %+v", c.cause, exact, f.ExactParts)
		}
	}
	if causes < 80 || frames < 100 {
		t.Errorf("only %d root causes and %d frames", causes, frames)
	}
}

func checkRoot(t *testing.T, r Root) {
	t.Helper()
	if len(r.Cause()) > maxCauseBytes || len(r.Frame) > maxFrameBytes || storableText(r.Cause(), maxCauseBytes) != r.Cause() || storableText(r.Frame, maxFrameBytes) != r.Frame {
		t.Errorf("cannot be stored: %+v", r)
	}
}
