package task

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
)

var versionForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})$`)

// maxMinutes is ten years, more than any task may take and little enough to be added to any time.
const maxMinutes = 5256000

// read reads a template, and adds its mistakes to ps.
func read(root *node, ps *problems) *Template {
	t := &Template{}
	var lifecycleStates []placed
	var machine machineReader
	ps.object(root, "", fields{
		"name":           func(n *node, path string) { t.Name, _ = ps.name(n, path) },
		"namespace_name": func(n *node, path string) { t.Namespace, _ = ps.name(n, path) },
		"version":        func(n *node, path string) { t.Version = readVersion(n, path, ps) },
		"description":    func(n *node, path string) { t.Description, _ = ps.text(n, path) },
		"metadata":       func(n *node, path string) { t.Metadata = ps.free(n, path, "a mapping", mappingNode) },
		"task_handler":   func(n *node, path string) { t.TaskHandler = readHandler(n, path, ps) },
		"system_dependencies": func(n *node, path string) {
			t.SystemDependencies = ps.free(n, path, "a mapping or a list", mappingNode, listNode)
		},
		"domain_events": func(n *node, path string) { t.DomainEvents = ps.free(n, path, "a list", listNode) },
		"input_schema": func(n *node, path string) {
			t.InputSchema = n.json()
			checkSchema(n, path, ps)
		},
		"environments": func(n *node, path string) { t.Environments = readEnvironments(n, path, ps) },
		"lifecycle":    func(n *node, path string) { t.Lifecycle, lifecycleStates = readLifecycle(n, path, ps) },
		"steps":        func(n *node, path string) { t.Steps = readSteps(n, path, ps) },
		"cancelled_steps": func(n *node, path string) {
			t.CancelledSteps = choice(ps, n, path, []CancelledSteps{CancelDependants, SkipCancelled, WaitForCancelled})
		},
		"events":      func(n *node, path string) { t.Events = readEvents(n, path, ps) },
		"start_event": func(n *node, path string) { t.StartEvent = readStartEvent(n, path, ps) },
		"max_retries": func(n *node, path string) { t.MaxRetries, _ = ps.whole(n, path, 1, 1000) },
		"states":      func(n *node, path string) { machine.states(n, path, ps) },
		"transitions": func(n *node, path string) { machine.transitions(n, path, ps) },
		"roles":       func(n *node, path string) { machine.roles(n, path, ps) },
		"retryable":   func(n *node, path string) { machine.retryable(n, path, ps) },
	})
	ps.needs(root, "", "name", "namespace_name", "version")
	m := machine.finish(t, ps)
	checkLifecycleStates(m, lifecycleStates, ps)
	return t
}

func readVersion(n *node, path string, ps *problems) string {
	if n.kind != textNode && n.kind != numberNode || !versionForm.MatchString(n.text) {
		ps.add(n, path, "must be three numbers with dots, for example 1.0.0, not %s", n.what())
		return ""
	}
	return n.text
}

func readHandler(n *node, path string, ps *problems) json.RawMessage {
	if n.kind == textNode && (n.text == "" || len(n.text) > 256) {
		ps.add(n, path, "must be a text of 1 to 256 bytes or a mapping, it has %d", len(n.text))
	}
	return ps.free(n, path, "a text or a mapping", textNode, mappingNode)
}

func readEvents(n *node, path string, ps *problems) *Events {
	e := &Events{}
	ps.object(n, path, fields{
		"topic": func(n *node, path string) { e.Topic = ps.topic(n, path) },
	})
	return e
}

func readStartEvent(n *node, path string, ps *problems) *StartEvent {
	e := &StartEvent{}
	ps.object(n, path, fields{
		"topic": func(n *node, path string) { e.Topic = ps.topic(n, path) },
		"type":  func(n *node, path string) { e.Type, _ = ps.bounded(n, path, 256) },
	})
	ps.needs(n, path, "topic")
	return e
}

// readLifecycle also returns the states that its keys name.
func readLifecycle(n *node, path string, ps *problems) (*Lifecycle, []placed) {
	l := &Lifecycle{}
	var states []placed
	known := fields{
		keyMaxDuration: func(n *node, path string) {
			if minutes, ok := readMinutes(n, path, ps); ok {
				l.MaxDurationMinutes = &minutes
			}
		},
		keyStalenessAction: func(n *node, path string) { l.StalenessAction = choice(ps, n, path, StalenessActions()) },
		keyAutoFail:        func(n *node, path string) { l.AutoFailOnTimeout = ps.boolean(n, path) },
		keyAutoDLQ:         func(n *node, path string) { l.AutoDLQOnTimeout = ps.boolean(n, path) },
	}
	names := append(slices.Sorted(maps.Keys(known)), stateKey("<state>"))
	for _, p := range n.pairs {
		key := p.key.text
		if _, own := known[key]; own {
			continue
		}
		state, ok := keyState(key)
		if !ok {
			ps.add(p.key, within(path, key), "unknown key%s", meant(ps, key, "key", names))
			known[key] = func(*node, string) {}
			continue
		}
		known[key] = func(n *node, path string) {
			if l.MaxStateMinutes == nil {
				l.MaxStateMinutes = map[string]int{}
			}
			states = append(states, placed{state, n, path})
			if minutes, ok := readMinutes(n, path, ps); ok {
				l.MaxStateMinutes[state] = minutes
			}
		}
	}
	ps.object(n, path, known)
	return l, states
}

func readMinutes(n *node, path string, ps *problems) (int, bool) {
	if n.kind == numberNode && n.text == "0" {
		ps.add(n, path, "0 minutes would make every task stale at once; leave the key out to get the default")
		return 0, false
	}
	return ps.whole(n, path, 1, maxMinutes)
}

// checkLifecycleStates complains about thresholds of states in which no task can get stale.
func checkLifecycleStates(m *Machine, states []placed, ps *problems) {
	var live []string
	for _, s := range m.States {
		if s.Kind.Live() {
			live = append(live, s.Name)
		}
	}
	for _, s := range states {
		switch kind := m.Kind(s.name); {
		case kind == "":
			ps.add(s.node, s.path, "unknown state %s%s", shown(s.name), meant(ps, s.name, "state", live))
		case !kind.Live():
			ps.add(s.node, s.path, "tasks in the state %s never get stale, its kind is %s; leave the key out", s.name, kind)
		}
	}
}
