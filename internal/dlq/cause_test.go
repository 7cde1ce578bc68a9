package dlq

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/message"
)

func TestRootCauses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code, message, stack string
		want                 Root
		place                string // what Code makes of the frame
	}{
		"nothing":             {"X", "boom", "", Root{}, ""},
		"no trace":            {"X", "boom at 5", "at a\nat b", Root{}, ""},
		"a trace of one":      {"X", "boom", "x.Y: boom\n\tat com.acme.A.b(A.java:1)\n", Root{Frame: "com.acme.A.b(A.java:1)"}, "com.acme.A.b"},
		"a library's":         {"X", "boom", "x.Y: boom\n\tat org.springframework.A.b(A.java:1)\n\tat java.base/java.lang.Thread.run(Thread.java:5)", Root{}, ""},
		"a wrapper":           {"", "", "org.springframework.W: failed\n\tat org.springframework.A.b(A.java:1)\nCaused by: x.Y: boom\n\tat app//com.acme.A.lambda$b$3(A.java:12)\n\t... 3 more", Root{"x.Y", "boom", "com.acme.A.lambda$b$3(A.java:12)", true, ""}, "com.acme.A.lambda$b$#"},
		"the last of three":   {"", "", "org.springframework.W: failed\nCaused by: a.B: middle\nCaused by: c.D\n\tat com.acme.A.b(Unknown Source)", Root{"c.D", "", "com.acme.A.b(Unknown Source)", true, ""}, "com.acme.A.b"},
		"an own outer one":    {"", "", "com.acme.Refused: no\n\tat com.acme.A.b(A.java:1)\nCaused by: x.Y: boom\n\t... 3 more", Root{"x.Y", "boom", "com.acme.A.b(A.java:1)", false, ""}, "com.acme.A.b"},
		"a repeated message":  {"", "", "java.lang.RuntimeException: x.Y: boom\nCaused by: x.Y: boom", Root{"x.Y", "boom", "", true, ""}, ""},
		"a thread's":          {"", "", "Exception in thread \"main\" org.springframework.W: failed\nCaused by: x.Y: boom", Root{"x.Y", "boom", "", true, ""}, ""},
		"more lines":          {"", "", "org.springframework.W: failed\nCaused by: x.Y: ERROR: no\n  Detail: it is so\n\tat org.A.b(A.java:1)", Root{"x.Y", "ERROR: no\n  Detail: it is so", "org.A.b(A.java:1)", true, ""}, "org.A.b"},
		"suppressed":          {"", "", "org.springframework.W: failed\n\tat java.A.b(A.java:1)\n\tSuppressed: a.B: not this\n\t\tat com.acme.No.no(No.java:1)\n\tCaused by: a.B: nor this\n", Root{}, ""},
		"a proxy":             {"", "", "x.Y: boom\n\tat jdk.proxy2.$Proxy14.save(Unknown Source)\n\tat com.acme.A$$SpringCGLIB$$0.save(<generated>)", Root{Frame: "com.acme.A$$SpringCGLIB$$0.save(<generated>)"}, "com.acme.A.save"},
		"the code as class":   {"org.springframework.W", "", "\tat com.acme.A.b(A.java:1)\nCaused by: x.Y: boom", Root{"x.Y", "boom", "com.acme.A.b(A.java:1)", true, ""}, "com.acme.A.b"},
		"nested":              {"", "failed; nested exception is a.B: middle; nested exception is c.D: boom", "", Root{"c.D", "boom", "", true, ""}, ""},
		".NET":                {"", "", "System.AggregateException: One or more errors occurred. (boom)\r\n ---> X.Y: boom\r\n   at X.Y.Z()\r\n   --- End of inner exception stack trace ---\r\n   at Acme.A.B(C c) in C:\\src\\A.cs:line 5\r\n ---> (Inner Exception #0) X.Y: boom\r\n", Root{"X.Y", "boom", "X.Y.Z()", true, ""}, "X.Y.Z"},
		".NET, one line":      {"", "", "System.AggregateException: one ---> X.Y: boom\n   at System.A.B()", Root{"X.Y", "boom", "", true, ""}, ""},
		".NET, unhandled":     {"", "", "Unhandled exception. Acme.No: boom\n   at Acme.A.<B>d__5.MoveNext() in /src/A.cs:line 5", Root{Frame: "Acme.A.<B>d__5.MoveNext() in /src/A.cs:line 5"}, "Acme.A.<B>d__#.MoveNext"},
		"Node":                {"", "", "TypeError: fetch failed\n    at node:internal/x:1:2\n    at async f (/app/a.js:10:5) {\n  [cause]: Error: connect ECONNREFUSED\n      at g (node:net:1:2) {\n    errno: -111\n  }\n}", Root{"Error", "connect ECONNREFUSED", "f (/app/a.js:10:5)", false, ""}, "f a.js"},
		"Node, a file":        {"", "", "Error [ERR_X]: boom\n    at file:///app/b2.mjs:1:2", Root{Frame: "file:///app/b2.mjs:1:2"}, "b#.mjs"},
		"Python":              {"", "", pythonTrace + "\n  File \"/x/site-packages/y.py\", line 1, in g\n    y()\npsycopg.Error: boom\n\n" + pythonCause + "\n\n" + pythonTrace + "\n  File \"/app/a.py\", line 42, in f\n    g()\nsqlalchemy.exc.IntegrityError: (psycopg.Error) boom\n", Root{"psycopg.Error", "boom", "f (/app/a.py:42)", true, ""}, "f a.py"},
		"Python, handling":    {"", "", pythonTrace + "\n  File \"/app/a.py\", line 1, in f\nKeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n" + pythonTrace + "\n  File \"/app/b.py\", line 2, in g\nValueError: boom", Root{Frame: "g (/app/b.py:2)"}, "g b.py"},
		"Python, the message": {"", "failed\n" + pythonTrace + "\n  File \"/app/a.py\", line 1, in f\n    x\nKeyError: 'a'", "", Root{Frame: "f (/app/a.py:1)", Outer: "KeyError: 'a'"}, "f a.py"},
		"Go":                  {"", "", "goroutine 1 [running]:\nruntime/debug.Stack()\n\t/usr/local/go/src/runtime/debug/stack.go:26 +0x5e\nmain.recovered()\n\t/app/r.go:1 +0x1\npanic({0x1, 0x2})\n\t/usr/local/go/src/runtime/panic.go:787 +0x132\nmain.(*T).f(0xc000, {0x1})\n\t/app/m.go:12 +0x1d\ncreated by main.main in goroutine 1\n\t/app/m.go:5", Root{Frame: "main.(*T).f (/app/m.go:12)"}, "main.(*T).f m.go"},
		"Go, a library":       {"", "", "panic: boom\n\ngoroutine 7 [running]:\ngithub.com/x/y.F(...)\n\t/root/go/pkg/mod/github.com/x/y/f.go:3\n", Root{}, ""},
	} {
		got := rootOf(c.code, c.message, c.stack)
		if got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
		if got.Code() != c.place {
			t.Errorf("%s: code %q, want %q", name, got.Code(), c.place)
		}
	}
}

// TestTheCauseAtTheEndOfALongTrace: what is stored of the trace ends before the cause.
func TestTheCauseAtTheEndOfALongTrace(t *testing.T) {
	t.Parallel()
	long := "org.springframework.W: failed\n" + strings.Repeat("\tat org.springframework.A.b(A.java:1)\n", 2000) + "Caused by: x.Y: boom\n\tat com.acme.A.b(A.java:1)\n"
	r := foreignRecords["spring"]
	for i := range r.Headers {
		if r.Headers[i].Name == "kafka_dlt-exception-stacktrace" {
			r.Headers = append([]message.Header{}, r.Headers...)
			r.Headers[i].Value = []byte(long)
		}
	}
	l := Decode(r)
	want := Root{Class: "x.Y", Message: "boom", Frame: "com.acme.A.b(A.java:1)", Wraps: true}
	if l.Root != want || len(l.ErrorStack) > maxStackBytes || strings.Contains(l.ErrorStack, "Caused by") {
		t.Errorf("%+v with %d bytes of trace", l.Root, len(l.ErrorStack))
	}
}

// TestSmallRyeNamesTheCause: SmallRye writes no trace, but class and message of the cause.
func TestSmallRyeNamesTheCause(t *testing.T) {
	t.Parallel()
	r := Record{Topic: "dead-letter-topic-orders", Value: []byte("v"), Headers: []message.Header{
		header("dead-letter-topic", "orders"), header("dead-letter-partition", "0"), header("dead-letter-offset", "55"),
		header("dead-letter-exception-class-name", "java.lang.reflect.InvocationTargetException"),
		header("dead-letter-cause-class-name", "com.acme.OutOfStock"), header("dead-letter-cause", "no stock of 17")}}
	l := Decode(r)
	if want := (Root{Class: "com.acme.OutOfStock", Message: "no stock of 17", Wraps: true}); l.Root != want || l.ErrorMessage != "no stock of 17" {
		t.Errorf("%+v, %q", l.Root, l.ErrorMessage)
	}
	if p := FingerprintOf(&l).Parts; p.RootCause != "com.acme.OutOfStock" || p.Message != "no stock of #" {
		t.Errorf("%+v", p)
	}
}

// FuzzRoots: whatever a trace looks like, what is read of it can be stored.
func FuzzRoots(f *testing.F) {
	for _, seed := range []string{"", "x.Y: z\n\tat a.b.C(D.java:1)\nCaused by: q", pythonTrace + "\n  File \"a\", line 1, in b\nx: y", "goroutine 1 [running]:\nf()\n\tg", "a ---> b\n ---> c\n--- End of inner exception\n at d(", "\xff\x00at (", "at \nat (/", pythonTrace + "  File \""} {
		f.Add("c", seed, seed)
		f.Add("", "", seed)
	}
	f.Fuzz(func(t *testing.T, code, message, stack string) {
		r := rootOf(code, message, stack)
		checkRoot(t, r)
		if storableText(r.Outer, maxCauseBytes) != r.Outer {
			t.Errorf("outer %q", r.Outer)
		}
		r.Code()
	})
}
