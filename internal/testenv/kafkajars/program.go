package kafkajars

import (
	"context"
	"fmt"
	"io"
)

// Program is a Java program beside a broker, for example a worker of Kafka
// Connect.
// Like the broker it dies, on Linux, with the process that started it.
type Program struct{ proc *process }

// StartProgram runs java with a class path and further arguments, the main
// class among them, in the folder dir. log receives its output; it may be nil.
// The caller ends the program with [Program.Stop].
func StartProgram(ctx context.Context, classpath string, args []string, dir string, log io.Writer) (*Program, error) {
	j, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	all := append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true", "-cp", classpath}, args...)
	proc, err := startProcess(j.path, all, dir, log)
	if err != nil {
		return nil, fmt.Errorf("start a Java program with %s: %w", j.path, err)
	}
	return &Program{proc}, nil
}

// Done is closed when the program has ended.
func (p *Program) Done() <-chan struct{} { return p.proc.done }

// Output returns the end of what the program wrote.
func (p *Program) Output() string { return p.proc.tail.String() }

// Stop ends the program in order, and waits; when ctx ends first, it kills it.
func (p *Program) Stop(ctx context.Context) error { return p.proc.terminate(ctx) }

// PID is the process id of the program.
func (p *Program) PID() int { return p.proc.pid }
