package task

import "strconv"

// Bounds of the steps of a template.
const (
	maxSteps        = 1000
	maxStepRetries  = 1000
	minPauseSeconds = 0.001
	maxPauseSeconds = 365 * 24 * 3600
)

// stepReader collects the steps and where their names and dependencies stand.
type stepReader struct {
	steps   []Step
	names   map[string]int // line of each
	depends [][]placed
}

func readSteps(n *node, path string, ps *problems) []Step {
	r := stepReader{names: map[string]int{}}
	if len(n.items) > maxSteps {
		ps.add(n, path, "has %d steps; a template has at most %d", len(n.items), maxSteps)
		return nil
	}
	ps.list(n, path, func(n *node, path string) { r.step(n, path, ps) })
	r.check(ps)
	return r.steps
}

func (r *stepReader) step(n *node, path string, ps *problems) {
	var s Step
	var depends []placed
	ps.object(n, path, fields{
		"name": func(n *node, path string) {
			name, ok := ps.bounded(n, path, 256)
			if first, again := r.names[name]; again {
				ps.add(n, path, "a step %s is there already, in line %d; give each its own name", name, first)
			} else if ok {
				r.names[name] = n.line
			}
			s.Name = name
		},
		"description":  func(n *node, path string) { s.Description, _ = ps.text(n, path) },
		"handler":      func(n *node, path string) { s.Handler = readHandler(n, path, ps) },
		"dependencies": func(n *node, path string) { depends = append(depends, ps.distinct(n, path)...) },
		"depends_on_step": func(n *node, path string) {
			if n.kind == textNode { // the older form, one name
				n = &node{kind: listNode, line: n.line, items: []*node{n}}
			}
			depends = append(depends, ps.distinct(n, path)...)
		},
		"max_retries": func(n *node, path string) {
			if retries, ok := ps.whole(n, path, 0, maxStepRetries); ok {
				s.MaxRetries = &retries
			}
		},
		"retry_base_seconds": func(n *node, path string) { s.RetryBaseSeconds = ps.seconds(n, path) },
		"retry_max_seconds":  func(n *node, path string) { s.RetryMaxSeconds = ps.seconds(n, path) },
		"inputs":             func(n *node, path string) { s.Inputs = n.json() },
		"metadata":           func(n *node, path string) { s.Metadata = ps.free(n, path, "a mapping", mappingNode) },
	})
	ps.needs(n, path, "name")
	if both := n.get("depends_on_step"); both != nil && n.get("dependencies") != nil {
		ps.add(both, within(path, "depends_on_step"), "says the same as dependencies; put all names there")
	}
	if s.RetryMaxSeconds > 0 && s.RetryMaxSeconds < s.RetryBaseSeconds {
		ps.add(n.get("retry_max_seconds"), within(path, "retry_max_seconds"), "is %v, less than retry_base_seconds, which is %v", s.RetryMaxSeconds, s.RetryBaseSeconds)
	}
	s.Dependencies = namesOf(depends)
	r.steps = append(r.steps, s)
	r.depends = append(r.depends, depends)
}

// check looks at what the steps say about each other.
func (r *stepReader) check(ps *problems) {
	names := make([]string, len(r.steps))
	for i, s := range r.steps {
		names[i] = s.Name
	}
	for _, depends := range r.depends {
		for _, d := range depends {
			if _, known := r.names[d.name]; !known {
				ps.add(d.node, d.path, "unknown step %s%s", shown(d.name), meant(ps, d.name, "step", names))
			}
		}
	}
	_, cycles := order(r.steps)
	for _, c := range cycles {
		for i, s := range r.steps {
			if s.Name != c[0] {
				continue
			}
			for _, d := range r.depends[i] {
				if d.name == c[1] {
					ps.add(d.node, d.path, "the steps wait for each other: %s; take one dependency out", arrows(c))
				}
			}
		}
	}
}

func (ps *problems) seconds(n *node, path string) float64 {
	f, err := strconv.ParseFloat(n.text, 64)
	if n.kind != numberNode || err != nil || f < minPauseSeconds || f > maxPauseSeconds {
		ps.add(n, path, "must be a number of seconds from %v to %d, not %s", minPauseSeconds, maxPauseSeconds, n.what())
		return 0
	}
	return f
}
