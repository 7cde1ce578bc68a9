package console

import (
	"fmt"
	"html"
	"html/template"
	"strings"

	"github.com/postrider/postrider/internal/tasks/ledger"
)

const (
	// nodesAbreast is how many steps of a level the picture draws; a wider level is one node that counts them.
	nodesAbreast = 2
	// levelsDrawn is how many levels the picture draws; deeper ones are one node that counts them.
	levelsDrawn = 24
)

// graphNode is a box of the picture: a step, or steps that are counted.
type graphNode struct {
	// title is a name or a count; sub and words say how it stands, and are empty in a template.
	title, sub string
	words      stateWords
	x, y, w    int
	// names are the steps in it.
	names map[string]bool
	needs []string
}

// stepGraph draws the steps of a task or of a template, whose steps have no status, from above to below: each level needs the
// ones above it. The table beside it has all steps and all dependencies.
func stepGraph(task string, steps []ledger.Step) template.HTML {
	if len(steps) == 0 {
		return ""
	}
	levels := stepLevels(steps)
	var rows [][]graphNode
	var said []string
	for i, level := range levels {
		if i == levelsDrawn && len(levels) > levelsDrawn+1 {
			var rest []ledger.Step
			for _, l := range levels[i:] {
				rest = append(rest, l...)
			}
			node := foldedNode(rest)
			rows, said = append(rows, []graphNode{node}), append(said, node.said()+" in "+fmt.Sprint(len(levels)-i)+" levels")
			break
		}
		row := levelNodes(level)
		var words []string
		for _, n := range row {
			words = append(words, n.said())
		}
		rows, said = append(rows, row), append(said, strings.Join(words, " and "))
	}
	const nodeHeight, rowHeight, width = 46, 94, 340
	for r := range rows {
		for i := range rows[r] {
			n := &rows[r][i]
			n.y, n.x, n.w = 1+r*rowHeight, 86, 168
			if len(rows[r]) == 2 {
				n.x, n.w = 4+i*172, 160
			}
		}
	}
	var b strings.Builder
	height := (len(rows)-1)*rowHeight + nodeHeight + 4
	fmt.Fprintf(&b, `<svg class="graph" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="gt gd"><title id="gt">Steps of %s</title><desc id="gd">%s. The table of steps says the same.</desc>`,
		width, height, width, height, html.EscapeString(clip(task, 80)), html.EscapeString(clip(strings.Join(said, ", then "), 2000)))
	for r := 1; r < len(rows); r++ {
		for _, to := range rows[r] {
			for _, from := range rows[r-1] {
				if stands(to, from) {
					drawEdge(&b, from, to, nodeHeight)
				}
			}
		}
	}
	for _, row := range rows {
		for _, n := range row {
			n.draw(&b, nodeHeight)
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String())
}

// draw draws a box. A step of a template has no status, so its box has a name alone.
func (n graphNode) draw(b *strings.Builder, height int) {
	kind := n.words.Mark
	if kind == "" {
		fmt.Fprintf(b, `<rect class="node" x="%d" y="%d" width="%d" height="%d" rx="7"/><text x="%d" y="%d">%s</text>`,
			n.x, n.y, n.w, height, n.x+14, n.y+28, html.EscapeString(oneLine(n.title, 19)))
		return
	}
	fmt.Fprintf(b, `<g class="%s"><rect class="node n-%s" x="%d" y="%d" width="%d" height="%d" rx="7"/><use href="#m-%s" x="%d" y="%d" width="16" height="16"/></g><text x="%d" y="%d">%s</text><text class="s" x="%d" y="%d">%s</text>`,
		kind, kind, n.x, n.y, n.w, height, n.words.Icon, n.x+12, n.y+15, n.x+36, n.y+20, html.EscapeString(oneLine(n.title, 15)), n.x+36, n.y+36, html.EscapeString(oneLine(n.sub, 24)))
}

// said is the box in words.
func (n graphNode) said() string {
	if n.sub == "" {
		return n.title
	}
	return n.title + " (" + n.sub + ")"
}

func stands(to, from graphNode) bool {
	for _, need := range to.needs {
		if from.names[need] {
			return true
		}
	}
	return false
}

func drawEdge(b *strings.Builder, from, to graphNode, nodeHeight int) {
	x1, y1, x2, y2 := from.x+from.w/2, from.y+nodeHeight, to.x+to.w/2, to.y-8
	dash := ""
	if from.words.Mark != "fine" && from.words.Mark != "" {
		dash = " dash"
	}
	mid := (y1 + y2) / 2
	fmt.Fprintf(b, `<path class="go%s" d="M%d %dC%d %d %d %d %d %d"/><path class="tip" d="M%d %dh8l-4 6z"/>`, dash, x1, y1, x1, mid, x2, mid, x2, y2, x2-4, y2)
}

// stepLevels puts each step one level below the lowest that it needs.
func stepLevels(steps []ledger.Step) [][]ledger.Step {
	at, needs, next := map[string]int{}, map[string]int{}, map[string][]string{}
	var ready []string
	for _, s := range steps {
		for _, d := range s.Dependencies {
			next[d] = append(next[d], s.Name)
		}
		if needs[s.Name] = len(s.Dependencies); needs[s.Name] == 0 {
			ready = append(ready, s.Name)
		}
	}
	for ; len(ready) > 0; ready = ready[1:] {
		for _, n := range next[ready[0]] {
			at[n] = max(at[n], at[ready[0]]+1)
			if needs[n]--; needs[n] == 0 {
				ready = append(ready, n)
			}
		}
	}
	var levels [][]ledger.Step
	for _, s := range steps {
		l := at[s.Name]
		for len(levels) <= l {
			levels = append(levels, nil)
		}
		levels[l] = append(levels[l], s)
	}
	return levels
}

func levelNodes(level []ledger.Step) []graphNode {
	if len(level) > nodesAbreast {
		return []graphNode{foldedNode(level)}
	}
	var row []graphNode
	for _, s := range level {
		w := stepWords(s.Status)
		row = append(row, graphNode{title: clip(s.Name, 60), sub: stepFact(s, w), words: w, names: map[string]bool{s.Name: true}, needs: s.Dependencies})
	}
	return row
}

// stepFact is a step's status in a few words.
func stepFact(s ledger.Step, w stateWords) string {
	fact := strings.ToLower(w.Word)
	if s.RetryCount > 0 && s.Status != ledger.StepComplete {
		fact += fmt.Sprintf(", %d of %d retries", s.RetryCount, s.MaxRetries)
	}
	return fact
}

// foldedNode counts steps. Its mark is the worst of theirs.
func foldedNode(steps []ledger.Step) graphNode {
	n := graphNode{title: fmt.Sprintf("%d steps", len(steps)), names: map[string]bool{}}
	counts := map[string]int{}
	for _, s := range steps {
		w := stepWords(s.Status)
		n.names[s.Name] = true
		n.needs = append(n.needs, s.Dependencies...)
		counts[w.Mark]++
	}
	var words []string
	for _, m := range []struct{ mark, word string }{{"failing", "failed"}, {"waiting", "working"}, {"quiet", "wait"}, {"fine", "done"}} {
		if counts[m.mark] == 0 {
			continue
		}
		if n.words.Mark == "" {
			n.words = stateWords{m.mark, m.mark, m.word}
		}
		words = append(words, fmt.Sprintf("%d %s", counts[m.mark], m.word))
	}
	n.sub = strings.Join(words, ", ")
	return n
}
