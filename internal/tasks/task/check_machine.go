package task

import (
	"slices"
	"strings"
)

// machineCheck looks at a machine as a whole.
type machineCheck struct {
	*machineReader
	ps *problems
}

// names complains about states that the machine does not have.
func (c *machineCheck) names() {
	known := c.m.stateNames()
	all := slices.Concat(c.fromAt, slices.Concat(c.toAt...), c.roleAt, c.retryAt)
	for _, p := range all {
		if !slices.Contains(known, p.name) {
			c.ps.add(p.node, p.path, "unknown state %s%s", shown(p.name), meant(c.ps, p.name, "state", known))
		}
	}
}

// shape checks that there is one beginning, that nothing leaves the end, and that no task gets stuck.
func (c *machineCheck) shape() {
	var initial []placed
	for i, s := range c.m.States {
		at := c.stateAt[i]
		if s.Kind == KindInitial {
			initial = append(initial, at)
		}
		if s.Kind.Live() && len(c.m.Next(s.Name)) == 0 {
			c.ps.add(at.node, at.path, "tasks could never leave the state %s; add a transition, or make its kind terminal or failed", s.Name)
		}
	}
	switch {
	case len(initial) == 0:
		c.ps.add(c.declared, "states", "no state is of the kind initial; tasks begin in one")
	case len(initial) > 1:
		c.ps.add(initial[1].node, initial[1].path, "the states %s are all of the kind initial; tasks begin in one", strings.Join(namesOf(initial), ", "))
	}
	for i, t := range c.m.Transitions {
		if c.m.Kind(t.From) == KindTerminal {
			c.ps.add(c.fromAt[i].node, c.fromAt[i].path, "the state %s is terminal, nothing follows it; leave the transition out, or make its kind failed", t.From)
		}
		for _, to := range c.toAt[i] {
			if to.name == t.From {
				c.ps.add(to.node, to.path, "the state %s cannot follow itself; leave it out", t.From)
			}
		}
	}
}

// reach complains about states to which no task can come.
func (c *machineCheck) reach() {
	begin := c.m.Initial()
	if begin == "" {
		return // said by shape
	}
	// Tasks come to these two without a transition.
	reached := map[string]bool{begin: true, c.m.Roles.DeadLetter: true, c.m.Roles.Archived: true}
	next := []string{begin, c.m.Roles.DeadLetter, c.m.Roles.Archived}
	for len(next) > 0 {
		state := next[0]
		next = next[1:]
		for _, to := range c.m.Next(state) {
			if !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	for i, s := range c.m.States {
		if !reached[s.Name] {
			c.ps.add(c.stateAt[i].node, c.stateAt[i].path, "no task can come to the state %s; add a transition to it, or leave it out", s.Name)
		}
	}
}

// rolesFit checks that Postrider can do with each role what it is for.
func (c *machineCheck) rolesFit() {
	for _, p := range c.roleAt {
		role := strings.TrimPrefix(p.path, "roles.")
		fit := []Kind{KindTerminal}
		if role == "failed" || role == "dead_letter" {
			fit = []Kind{KindFailed, KindTerminal}
		}
		if kind := c.m.Kind(p.name); kind != "" && !slices.Contains(fit, kind) {
			c.ps.add(p.node, p.path, "the state %s is of the kind %s; this role needs one of the kind %s", p.name, kind, strings.ReplaceAll(join(fit), ", ", " or "))
		}
		switch {
		case role == "archived" && c.m.Roles.DeadLetter == "" && c.m.Roles.Failed == "":
			c.ps.add(p.node, p.path, "only dead-lettered tasks are archived; add the role dead_letter or failed")
		case role == "failed" && c.m.Kind(p.name) != "":
			if stuck := c.cannotFail(); len(stuck) > 0 {
				c.ps.add(p.node, p.path, "stale tasks are moved to the state %s, but nothing allows that from %s; add the transitions, or leave the role out", p.name, strings.Join(stuck, ", "))
			}
		}
	}
}

// cannotFail returns the live states from which no transition leads to the failed one.
func (c *machineCheck) cannotFail() []string {
	var stuck []string
	for _, s := range c.m.States {
		if s.Kind.Live() && !c.m.Allows(s.Name, c.m.Roles.Failed) {
			stuck = append(stuck, s.Name)
		}
	}
	return stuck
}

// retries checks that a retry can bring a task back to the beginning.
func (c *machineCheck) retries() {
	begin := c.m.Initial()
	for _, p := range c.retryAt {
		switch kind := c.m.Kind(p.name); {
		case kind == "" || begin == "":
		case kind == KindTerminal || kind == KindInitial:
			c.ps.add(p.node, p.path, "tasks in the state %s cannot be retried, its kind is %s; make that failed, or leave it out", p.name, kind)
		case !c.m.Allows(p.name, begin):
			c.ps.add(p.node, p.path, "a retry brings a task to the state %s, but nothing allows that from %s; add the transition", begin, p.name)
		}
	}
}
