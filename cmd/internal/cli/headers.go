package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// givenHeaders are the flags that give headers to messages.
type givenHeaders struct {
	pairs []string
	none  bool
}

func (g *givenHeaders) bind(f *pflag.FlagSet, header, none string) {
	f.StringArrayVar(&g.pairs, "header", nil, header)
	f.BoolVar(&g.none, "header-none", false, none)
}

// read returns the headers in order: empty for --header-none, nil where nothing is given.
func (g *givenHeaders) read() ([]message.Header, error) {
	if g.none {
		if len(g.pairs) > 0 {
			return nil, usagef("--header-none sends no headers, and --header is given")
		}
		return []message.Header{}, nil
	}
	var hs []message.Header
	for _, h := range g.pairs {
		name, value, found := strings.Cut(h, "=")
		if !found || name == "" {
			return nil, usagef("--header is %q; it must be NAME=VALUE", shorten(h, 60))
		}
		hs = append(hs, message.Header{Name: name, Value: []byte(value)})
	}
	return hs, nil
}

// repair is what the flags say to do with messages that have unreadable headers.
func (g *givenHeaders) repair() (*dlq.Repair, error) {
	hs, err := g.read()
	if err != nil || hs == nil {
		return nil, err
	}
	p := &dlq.Repair{Headers: hs, None: g.none}
	if err := p.Check(); err != nil {
		return nil, &usageError{err}
	}
	return p, nil
}
