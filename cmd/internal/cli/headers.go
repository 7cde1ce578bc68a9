package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/message"
)

// givenHeaders are the flags that give headers to messages.
type givenHeaders struct {
	pairs  []string
	none   bool
	asText bool
}

func (g *givenHeaders) bind(f *pflag.FlagSet, header, none string) {
	f.StringArrayVar(&g.pairs, "header", nil, header)
	f.BoolVar(&g.none, "header-none", false, none)
}

// bindRepair is bind for messages with unreadable headers.
func (g *givenHeaders) bindRepair(f *pflag.FlagSet) {
	g.bind(f, "for messages with unreadable headers: send `NAME=VALUE`, too; once for each", "send these messages without headers")
	g.bindText(f)
}

// bindText binds the flag that sends headers that cannot be read as texts.
func (g *givenHeaders) bindText(f *pflag.FlagSet) {
	f.BoolVar(&g.asText, "header-text", false, "send each header that cannot be read as the text of its own value, such as 5")
}

// read returns the headers in order: empty for --header-none, nil where nothing is given.
func (g *givenHeaders) read() ([]message.Header, error) {
	if g.none {
		if len(g.pairs) > 0 || g.asText {
			return nil, usagef("--header-none sends no headers, and --header or --header-text is given")
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
	if err != nil || hs == nil && !g.asText {
		return nil, err
	}
	p := &dlq.Repair{Headers: hs, AsText: g.asText, None: g.none}
	if err := p.Check(); err != nil {
		return nil, &usageError{err}
	}
	return p, nil
}
