package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
)

// gate is a child's view of the process that started it.
type gate struct{ opened chan struct{} }

// newGate reads the parent's word. The context it returns ends with stdin, that is with the parent.
func newGate(ctx context.Context, stdin io.Reader) (context.Context, *gate) {
	ctx, cancel := context.WithCancel(ctx)
	g := &gate{opened: make(chan struct{})}
	go func() {
		defer cancel()
		in := bufio.NewReader(stdin)
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		close(g.opened)
		_, _ = io.Copy(io.Discard, in)
	}()
	return ctx, g
}

// await says that this process is ready and waits for the word.
func (g *gate) await(ctx context.Context) error {
	fmt.Println("ready")
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return errors.New("told to end before it began")
	}
}
