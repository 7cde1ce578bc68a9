package dlq

import "strings"

// A framework that hands a record to a program wraps what the program throws. So the outer exception of a stack trace
// often says "Listener failed", and only the last one says what went wrong. This file reads the stack traces of Java and
// its languages, .NET, Node, Python and Go.

// Bounds of what is read of stack traces, in bytes.
const (
	// maxTraceBytes is how much of a trace is read. A trace of Spring may have 60 KiB, with the cause at its end.
	maxTraceBytes = 256 << 10
	maxCauseBytes = 2 << 10
	maxFrameBytes = 512
)

// Root is the failure behind the others, as a stack trace tells it. Its zero value says that the letter tells of none.
type Root struct {
	// Class and Message are of the exception that caused all others. Both are empty if the letter names only one exception,
	// which its own class and message then describe.
	Class, Message string
	// Frame is the first place in the program's own code, and not in a library, on the way up from the cause. It stands as
	// in the trace, with its file and line. Empty if the trace has no such place.
	Frame string
	// Wraps says that the outer exception says nothing of its own: its class is one of a framework's wrappers, or its
	// message repeats its cause.
	Wraps bool
	// Outer is class and message of the outer exception, if the letter's message is a whole stack trace. Empty otherwise.
	Outer string
}

// Cause is class and message in one text; empty if there is no exception behind the letter's own.
func (r Root) Cause() string {
	return strings.Join(nonEmpty(r.Class, r.Message), ": ")
}

// Code is the Frame without what another build changes: the line, the directory, and names that compilers make up.
func (r Root) Code() string {
	code, _, found := strings.Cut(r.Frame, "(")
	if at := strings.LastIndex(r.Frame, " ("); at >= 0 { // a function, and the file that it is in
		code = r.Frame[:at+1] + fileName(strings.TrimSuffix(r.Frame[at+2:], ")"))
	} else if !found { // a file alone
		code = fileName(r.Frame)
	}
	// Classes that are made at run time have the class that they stand for, $$ and a name that differs each time.
	if before, made, proxied := strings.Cut(code, "$$"); proxied {
		_, method, _ := strings.Cut(made, ".")
		code = before + "." + method
	}
	var b strings.Builder
	for i := 0; i < len(code); i++ {
		if !digit(code[i]) {
			b.WriteByte(code[i])
		} else if i == 0 || !digit(code[i-1]) {
			b.WriteByte('#')
		}
	}
	return b.String()
}

// fileName is the last part of a path, without line and column.
func fileName(path string) string {
	path = path[strings.LastIndexAny(path, `/\`)+1:]
	name, _, _ := strings.Cut(path, ":")
	return name
}

// rootOf reads the failure behind the others from a stack trace. If there is none, it reads the message, in which some
// programs write a trace. code stands for the class of the outer exception where the trace does not begin with that.
func rootOf(code, message, stack string) Root {
	var r Root
	thrown := readTrace(cut(stack, maxTraceBytes))
	if !told(thrown) {
		if thrown = readTrace(cut(message, maxTraceBytes)); told(thrown) {
			r.Outer = storableText(thrown[0].text(), maxCauseBytes)
		} else {
			thrown = nestedIn(cut(message, maxTraceBytes))
			r.Wraps = len(thrown) > 1
		}
	}
	if len(thrown) == 0 {
		return r
	}
	outer, last := thrown[0], thrown[len(thrown)-1]
	for i := len(thrown) - 1; i >= 0 && r.Frame == ""; i-- {
		r.Frame = storableText(thrown[i].frame, maxFrameBytes)
	}
	if len(thrown) == 1 {
		return r
	}
	if outer.class == "" {
		outer.class = code
	}
	r.Class, r.Message = storableText(last.class, maxNameBytes), storableText(last.message, maxCauseBytes-maxNameBytes-2)
	r.Wraps = r.Wraps || wraps(outer.class) || outer.message == "" || outer.message == thrown[1].text()
	return r
}

// told reports whether exceptions tell more than that the first of them was thrown.
func told(thrown []exception) bool {
	return len(thrown) > 1 || len(thrown) == 1 && thrown[0].frame != ""
}

// exception is one exception of a trace, with the first frame of it that is of the program itself.
type exception struct {
	class, message, frame string
}

func (e exception) text() string { return strings.Join(nonEmpty(e.class, e.message), ": ") }

// headed is the exception that the head of its part of a trace describes: class, colon, message.
func headed(head string) exception {
	head = strings.TrimSpace(head)
	if strings.HasPrefix(head, `Exception in thread "`) {
		if _, rest, ok := strings.Cut(head[len(`Exception in thread "`):], `" `); ok {
			head = rest
		}
	}
	head = strings.TrimPrefix(strings.TrimPrefix(head, "Unhandled exception. "), "Uncaught ")
	class, message, _ := strings.Cut(head, ": ")
	if name, _, coded := strings.Cut(class, " ("); coded && class[len(class)-1] == ')' { // SocketException (111)
		class = name
	}
	if name, _, _ := strings.Cut(class, " ["); strings.ContainsAny(name, " \n\"'") { // no class
		return exception{message: head}
	}
	return exception{class: strings.TrimSuffix(class, ":"), message: strings.TrimSpace(message)}
}

// readTrace returns the exceptions of a trace, the outer one first and the cause of all last.
func readTrace(trace string) []exception {
	switch {
	case strings.Contains(trace, pythonTrace):
		return readPython(trace)
	case strings.HasPrefix(trace, "goroutine ") || strings.Contains(trace, "\ngoroutine "):
		return readGoroutine(trace)
	case strings.Contains(trace, "at ") || strings.Contains(trace, "Caused by: ") || strings.Contains(trace, "---> "):
		return readFrames(trace)
	}
	return nil
}

// nestedIn returns the exceptions that a message names, as older versions of Spring wrote it.
func nestedIn(message string) []exception {
	const nested = "; nested exception is "
	parts := strings.Split(message, nested)
	if len(parts) == 1 {
		return nil
	}
	thrown := []exception{{message: parts[0]}}
	for _, part := range parts[1:] {
		thrown = append(thrown, headed(part))
	}
	return thrown
}

// readFrames reads a trace whose frames begin with at: of Java, .NET or Node.
//
// Java writes each exception with its frames, the outer one first. .NET writes all exceptions first, and then the frames
// from the innermost one outward. Node writes a cause in brackets behind the frames.
func readFrames(trace string) []exception {
	var heads []string
	var frames []string // the first own frame of each
	at := -1            // the exception whose frames are read
	begun := false      // frames of it were there
	suppressed := false
	next := func(head string) {
		heads, frames = append(heads, head), append(frames, "")
		at, begun, suppressed = len(heads)-1, false, false
	}
	for line := range strings.Lines(trace) {
		line = strings.TrimRight(line, "\r\n")
		text := strings.TrimLeft(line, " \t")
		inner, isInner := strings.CutPrefix(text, "---> ")
		cause, isCause := strings.CutPrefix(text, "[cause]: ")
		frame, isFrame := strings.CutPrefix(text, "at ")
		isFrame = isFrame && !strings.HasPrefix(frame, "[") // Jackson's place in the payload
		switch {
		case strings.HasPrefix(line, "Caused by: "):
			next(line[len("Caused by: "):])
		case isInner && !strings.HasPrefix(inner, "(Inner Exception #"): // these repeat the first, or stand beside it
			next(inner)
		case isCause:
			next(cause)
		case strings.HasPrefix(text, "--- End of inner exception"):
			at, begun = max(at-1, 0), false
		case strings.HasPrefix(line, "\tSuppressed: ") || strings.HasPrefix(line, "    Suppressed: "):
			suppressed = true // by the exception above, and not its cause
		case isFrame && line != text || isFrame && at >= 0:
			if at < 0 {
				next("")
			}
			begun = true
			if shown, own := ownFrame(frame); own && frames[at] == "" && !suppressed {
				frames[at] = shown
			}
		case strings.HasPrefix(text, "... ") && strings.HasSuffix(text, " more"):
		case at < 0:
			next(text)
		case !begun && !suppressed && at == len(heads)-1 && len(heads[at]) < maxCauseBytes:
			heads[at] += "\n" + line
		}
	}
	var thrown []exception
	for i, head := range heads {
		for n, part := range strings.Split(head, " ---> ") { // of .NET before Core, in one line
			if n > 0 {
				thrown[len(thrown)-1].frame = ""
			}
			e := headed(part)
			e.frame = frames[i]
			thrown = append(thrown, e)
		}
	}
	return thrown
}

const (
	pythonTrace = "Traceback (most recent call last):"
	pythonCause = "The above exception was the direct cause of the following exception:"
)

// readPython reads a trace of Python, which has the cause before what it caused, and the innermost frame last.
func readPython(trace string) []exception {
	var thrown []exception
	parts := strings.Split(trace, pythonTrace)
	for i := len(parts) - 1; i > 0; i-- {
		var e exception
		head := ""
		for line := range strings.Lines(parts[i]) {
			text := strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(text, `File "`) && head == "":
				if shown, own := pythonFrame(text); own {
					e.frame = shown
				}
			case text == "" && head != "" || strings.HasPrefix(text, "The above exception") || strings.HasPrefix(text, "During handling of"):
			case head != "" && len(head) < maxCauseBytes:
				head += "\n" + text
			case line[0] != ' ' && line[0] != '\t' && text != "":
				head = text
			}
		}
		frame := e.frame
		e = headed(head)
		e.frame = frame
		thrown = append(thrown, e)
		// What was being handled when another exception occurred is not what caused it.
		if !strings.Contains(parts[i-1], pythonCause) {
			break
		}
	}
	return thrown
}

// pythonFrame reads `File "/app/orders.py", line 42, in handle`, and reports whether the file is the program's own.
func pythonFrame(text string) (shown string, own bool) {
	file, rest, _ := strings.Cut(text[len(`File "`):], `"`)
	line, function, _ := strings.Cut(strings.TrimPrefix(rest, ", line "), ", in ")
	for _, library := range []string{"site-packages", "dist-packages", "/lib/python", `\lib\`, "<frozen", "<string>"} {
		if strings.Contains(file, library) {
			return "", false
		}
	}
	return function + " (" + file + ":" + line + ")", true
}

// readGoroutine reads the stack that a Go program writes when it panics: functions, each with its file below.
func readGoroutine(trace string) []exception {
	head, stack, _ := strings.Cut("\n"+trace, "\ngoroutine ")
	// Above the panic is the code that recovered from it.
	if _, below, panicked := strings.Cut(stack, "\npanic("); panicked {
		stack = below
	}
	e := headed(head)
	function := ""
	for line := range strings.Lines(stack) {
		file, isFile := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "\t")
		if !isFile {
			function, _, _ = strings.Cut(file, "(0x")
			function, _, _ = strings.Cut(strings.TrimSuffix(function, "()"), "({")
			function = strings.TrimSuffix(strings.TrimSuffix(function, "(...)"), "(")
			continue
		}
		file, _, _ = strings.Cut(file, " +0x")
		if strings.Contains(file, "/go/src/") || strings.Contains(file, "/pkg/mod/") || strings.Contains(file, "/vendor/") ||
			strings.HasPrefix(function, "created by ") || function == "" {
			continue
		}
		e.frame = function + " (" + file + ")"
		break
	}
	return []exception{e}
}

// ownFrame reads what follows at, and reports whether the place is in the program's own code.
func ownFrame(text string) (shown string, own bool) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "async "), " {")
	open := strings.IndexByte(text, '(')
	if open <= 0 || text[open-1] == ' ' { // of Node: function (file:line:column), or the file alone
		place := text[open+1:]
		return text, strings.ContainsAny(place, `/\`) && !strings.Contains(place, "node_modules") && !strings.Contains(place, "node:") &&
			!strings.HasPrefix(place, "internal/")
	}
	name := text[:open]
	if strings.Contains(name, "$$Lambda") || strings.Contains(name, "$Proxy") {
		return "", false // made at run time; the code that it stands for is the next frame
	}
	if module := strings.LastIndexByte(name, '/'); module >= 0 {
		name, text = name[module+1:], text[module+1:]
	}
	return text, strings.Contains(name, ".") && !inLibrary(name)
}
