package task

import (
	"slices"
)

// maxStates bounds a machine.
const maxStates = 200

// machineReader collects a machine of a template's own and where its parts stand.
type machineReader struct {
	m         Machine
	stateAt   []placed
	fromAt    []placed   // of each transition
	toAt      [][]placed // of each transition
	roleAt    []placed
	retryAt   []placed
	declared  *node  // the key states
	dependent []pair // keys that make sense only with states
}

func (r *machineReader) states(n *node, path string, ps *problems) {
	r.declared = n
	if len(n.items) > maxStates {
		ps.add(n, path, "has %d states; a machine has at most %d", len(n.items), maxStates)
		return
	}
	if n.kind == listNode && len(n.items) == 0 {
		ps.add(n, path, "is empty; list the states, or leave the key out for the built-in machine")
	}
	ps.list(n, path, func(n *node, path string) {
		var s State
		var at placed
		ps.object(n, path, fields{
			"name": func(n *node, path string) {
				name, ok := ps.name(n, path)
				switch {
				case !ok:
				case r.m.Kind(name) != "" || slices.Contains(r.m.stateNames(), name):
					ps.add(n, path, "the state %s is there already; give each its own name", name)
				case name == "duration":
					ps.add(n, path, "a state cannot be named duration: lifecycle.max_duration_minutes bounds the whole task")
				default:
					s.Name, at = name, placed{name, n, path}
				}
			},
			"kind": func(n *node, path string) { s.Kind = choice(ps, n, path, Kinds()) },
		})
		ps.needs(n, path, "name", "kind")
		if s.Name != "" {
			r.m.States = append(r.m.States, s)
			r.stateAt = append(r.stateAt, at)
		}
	})
}

func (r *machineReader) transitions(n *node, path string, ps *problems) {
	r.dependent = append(r.dependent, pair{&node{text: path}, n})
	from := map[string]int{}
	ps.list(n, path, func(n *node, path string) {
		var t Transition
		fromAt := placed{node: n, path: path}
		var toAt []placed
		ps.object(n, path, fields{
			"from": func(n *node, path string) {
				name, ok := ps.name(n, path)
				if first, again := from[name]; again {
					ps.add(n, path, "what follows %s is said already in line %d; put all of it there", name, first)
				} else if ok {
					from[name], t.From, fromAt = n.line, name, placed{name, n, path}
				}
			},
			"to": func(n *node, path string) {
				toAt = ps.distinct(n, path)
				t.To = namesOf(toAt)
				if n.kind == listNode && len(n.items) == 0 {
					ps.add(n, path, "is empty; name the states that may follow, or leave the transition out")
				}
			},
		})
		ps.needs(n, path, "from", "to")
		if t.From != "" {
			r.m.Transitions = append(r.m.Transitions, t)
			r.fromAt, r.toAt = append(r.fromAt, fromAt), append(r.toAt, toAt)
		}
	})
}

func (r *machineReader) roles(n *node, path string, ps *problems) {
	r.dependent = append(r.dependent, pair{&node{text: path}, n})
	roles := &r.m.Roles
	role := func(state *string) func(n *node, path string) {
		return func(n *node, path string) {
			if name, ok := ps.name(n, path); ok {
				*state = name
				r.roleAt = append(r.roleAt, placed{name, n, path})
			}
		}
	}
	ps.object(n, path, fields{
		"complete": role(&roles.Complete), "failed": role(&roles.Failed), "cancelled": role(&roles.Cancelled),
		"dead_letter": role(&roles.DeadLetter), "archived": role(&roles.Archived),
	})
}

func (r *machineReader) retryable(n *node, path string, ps *problems) {
	r.dependent = append(r.dependent, pair{&node{text: path}, n})
	r.retryAt = ps.distinct(n, path)
	r.m.Retryable = namesOf(r.retryAt)
}

// finish checks the machine as a whole and puts it into the template. It returns the one that the template's
// tasks will have.
func (r *machineReader) finish(t *Template, ps *problems) *Machine {
	if r.declared == nil {
		for _, p := range r.dependent {
			ps.add(p.value, p.key.text, "says something about states, but the template declares none; add states, or leave this out for the built-in machine")
		}
		return Builtin()
	}
	c := machineCheck{machineReader: r, ps: ps}
	c.names()
	c.shape()
	c.reach()
	c.rolesFit()
	c.retries()
	t.States, t.Transitions, t.Retryable = r.m.States, r.m.Transitions, r.m.Retryable
	if r.m.Roles != (Roles{}) {
		t.Roles = &r.m.Roles
	}
	return &r.m
}
