package cli

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// terminal is what is known of where results go.
type terminal struct {
	// width is how many characters a line has; 0 where nothing limits it, because no person looks.
	width int
	// colour says that colours may be used.
	colour bool
}

// terminalOf asks where w goes. The variable COLUMNS is taken for the width where it is set; NO_COLOR, if it
// is set and not empty, switches colours off (no-color.org), as does TERM=dumb.
func terminalOf(w io.Writer, variable func(string) string) terminal {
	file, is := w.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) {
		return terminal{}
	}
	t := terminal{width: 80, colour: variable("NO_COLOR") == "" && variable("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
		t.width = width
	}
	if width, err := strconv.Atoi(variable("COLUMNS")); err == nil && width > 0 {
		t.width = width
	}
	return t
}

// variable is a variable of the environment; the last one counts, as for a shell.
func (c *commands) variable(name string) string {
	for _, entry := range slices.Backward(c.environ) {
		if value, is := strings.CutPrefix(entry, name+"="); is {
			return value
		}
	}
	return ""
}
