package soak

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// echo serves lines back, and counts the lines that reach it.
func echo(t *testing.T) (addr string, lines chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	lines = make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewScanner(conn); in.Scan(); {
					lines <- in.Text()
					if _, err := conn.Write(append(in.Bytes(), '\n')); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), lines
}

func link(t *testing.T, target string) *Link {
	t.Helper()
	l, err := NewLink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	l.Aim(target)
	return l
}

// caller is a client that reads its answers on the side.
type caller struct {
	net.Conn
	answers chan string // closed with the connection
}

func call(t *testing.T, l *Link) caller {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := caller{conn, make(chan string, 100)}
	go func() {
		defer close(c.answers)
		for in := bufio.NewScanner(conn); in.Scan(); {
			c.answers <- in.Text()
		}
	}()
	return c
}

func (c caller) say(t *testing.T, line string) {
	t.Helper()
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		t.Fatal(err)
	}
}

// want fails unless the line comes next; an empty one is the end.
func want(t *testing.T, from chan string, line string) {
	t.Helper()
	select {
	case got := <-from:
		if got != line {
			t.Fatalf("got %q, want %q", got, line)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("no %q within 10 s", line)
	}
}

// silent fails when anything comes in a moment.
func silent(t *testing.T, from chan string) {
	t.Helper()
	select {
	case got, ok := <-from:
		t.Fatalf("got %q (%v), want silence", got, ok)
	case <-time.After(100 * time.Millisecond):
	}
}

func TestLinkStandsStillAndGoesOn(t *testing.T) {
	t.Parallel()
	addr, lines := echo(t)
	l := link(t, addr)
	c := call(t, l)
	c.say(t, "one")
	want(t, lines, "one")
	want(t, c.answers, "one")

	l.Set(Condition{NothingUp: true})
	c.say(t, "two")
	silent(t, lines)
	fresh := call(t, l) // connects, and hangs
	fresh.say(t, "three")
	silent(t, lines)
	l.Set(Condition{NothingDown: true})
	want(t, lines, "two") // arrives, and its answer does not
	silent(t, c.answers)
	l.Set(Condition{})
	want(t, c.answers, "two")
	want(t, lines, "three")
	want(t, fresh.answers, "three")
}

func TestLinkCut(t *testing.T) {
	t.Parallel()
	addr, lines := echo(t)
	l := link(t, addr)
	c, hanging := call(t, l), call(t, l)
	c.say(t, "one")
	want(t, c.answers, "one")
	want(t, lines, "one")
	l.Set(Condition{NothingUp: true})
	c.say(t, "lost")
	hanging.say(t, "lost too")
	silent(t, lines)
	l.Cut()
	want(t, c.answers, "")
	want(t, hanging.answers, "")
	l.Set(Condition{})
	silent(t, lines)
	again := call(t, l)
	again.say(t, "two")
	want(t, lines, "two")
}

func TestLinkSlow(t *testing.T) {
	t.Parallel()
	addr, lines := echo(t)
	l := link(t, addr)
	l.Set(Condition{Delay: 5 * time.Millisecond, Slice: 3})
	c := call(t, l)
	c.say(t, "cut to pieces, and whole again")
	want(t, lines, "cut to pieces, and whole again")
	want(t, c.answers, "cut to pieces, and whole again")
}

// A server that is away is a refusal.
func TestLinkToNowhere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := listener.Addr().String()
	_ = listener.Close()
	conn, err := net.Dial("tcp", link(t, gone).Addr())
	if err != nil {
		return // reset before the connect was done
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("an answer comes for a server that is away")
	}
}
