package task

import "slices"

// Kind says what a state means, whatever its name.
type Kind string

// The kinds of states.
const (
	// KindInitial is where tasks begin. It is live.
	KindInitial Kind = "initial"
	// KindActive: the task is being worked on. It is live.
	KindActive Kind = "active"
	// KindWaiting: the task waits for something that should come by itself. It is live.
	KindWaiting Kind = "waiting"
	// KindFailed: the task waits for a person, for as long as it takes.
	KindFailed Kind = "failed"
	// KindTerminal is the end.
	KindTerminal Kind = "terminal"
)

// Kinds lists them all.
func Kinds() []Kind {
	return []Kind{KindInitial, KindActive, KindWaiting, KindFailed, KindTerminal}
}

// Live reports whether tasks in a state of this kind should move on by themselves, and so can get stale.
func (k Kind) Live() bool { return k == KindInitial || k == KindActive || k == KindWaiting }

// State is a state of a machine.
type State struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
}

// Transition names the states that may follow one.
type Transition struct {
	From string   `json:"from"`
	To   []string `json:"to"`
}

// Roles names the states that Postrider itself moves tasks to. An empty one does not exist.
type Roles struct {
	// Complete is where a task goes when its steps are done. Without it, the steps do not lead the task.
	Complete string `json:"complete,omitempty"`
	// Failed is the state for a stale task that is moved aside, and for a task whose steps failed for good. Without it,
	// the task stays where it is.
	Failed string `json:"failed,omitempty"`
	// Cancelled is where a cancelled task goes. Without it, tasks cannot be cancelled.
	Cancelled string `json:"cancelled,omitempty"`
	// DeadLetter is where a task goes when an outbox event of it is dead-lettered, from any state that is not
	// terminal. Without it, Failed is taken.
	DeadLetter string `json:"dead_letter,omitempty"`
	// Archived is where a dead-lettered task goes when it is read after seven days without a change, and no investigation
	// is pending.
	Archived string `json:"archived,omitempty"`
}

// Machine is a state machine.
type Machine struct {
	States      []State      `json:"states"`
	Transitions []Transition `json:"transitions"`
	Roles       Roles        `json:"roles"`
	// Retryable are the states from which a task may be retried as a whole, which brings it to the initial one.
	Retryable []string `json:"retryable"`
}

// BuiltinName is the name of the built-in machine in the database.
const BuiltinName = "workflow"

// Builtin returns the machine of twelve states that templates without states of their own have. The
// migrations put the same into the database.
func Builtin() *Machine {
	return &Machine{
		States: []State{
			{"pending", KindInitial},
			{"initializing", KindActive},
			{"enqueuing_steps", KindActive},
			{"steps_in_process", KindActive},
			{"evaluating_results", KindActive},
			{"waiting_for_dependencies", KindWaiting},
			{"waiting_for_retry", KindWaiting},
			{"blocked_by_failures", KindWaiting},
			{"complete", KindTerminal},
			{"error", KindFailed},
			{"cancelled", KindTerminal},
			{"resolved_manually", KindTerminal},
		},
		Transitions: []Transition{
			{"pending", []string{"initializing", "error", "cancelled"}},
			{"initializing", []string{"enqueuing_steps", "waiting_for_dependencies", "complete", "error", "cancelled"}},
			{"enqueuing_steps", []string{"steps_in_process", "error", "cancelled"}},
			{"steps_in_process", []string{"evaluating_results", "error", "cancelled"}},
			{"evaluating_results", []string{"complete", "enqueuing_steps", "steps_in_process", "waiting_for_dependencies",
				"waiting_for_retry", "blocked_by_failures", "error", "cancelled"}},
			{"waiting_for_dependencies", []string{"evaluating_results", "enqueuing_steps", "steps_in_process", "error", "cancelled"}},
			{"waiting_for_retry", []string{"evaluating_results", "enqueuing_steps", "steps_in_process", "error", "cancelled"}},
			{"blocked_by_failures", []string{"evaluating_results", "enqueuing_steps", "steps_in_process", "error", "cancelled", "resolved_manually"}},
			{"error", []string{"pending", "enqueuing_steps", "steps_in_process", "evaluating_results", "waiting_for_dependencies",
				"waiting_for_retry", "complete", "cancelled", "resolved_manually"}},
		},
		Roles:     Roles{Complete: "complete", Failed: "error", Cancelled: "cancelled"},
		Retryable: []string{"error"},
	}
}

// Initial returns the state in which tasks begin, empty if there is none.
func (m *Machine) Initial() string {
	for _, s := range m.States {
		if s.Kind == KindInitial {
			return s.Name
		}
	}
	return ""
}

// Kind returns the kind of a state, empty for one that the machine does not have.
func (m *Machine) Kind(state string) Kind {
	for _, s := range m.States {
		if s.Name == state {
			return s.Kind
		}
	}
	return ""
}

// Next returns the states that may follow a state.
func (m *Machine) Next(state string) []string {
	for _, t := range m.Transitions {
		if t.From == state {
			return t.To
		}
	}
	return nil
}

// Allows reports whether a task may go from one state to another.
func (m *Machine) Allows(from, to string) bool { return slices.Contains(m.Next(from), to) }

// stateNames returns the names of the states, in the machine's order.
func (m *Machine) stateNames() []string {
	names := make([]string, len(m.States))
	for i, s := range m.States {
		names[i] = s.Name
	}
	return names
}
