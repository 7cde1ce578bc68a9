package config

import (
	"fmt"

	"github.com/postrider/postrider/internal/dlq"
)

// checkRedaction reads a rule in the same way as the code that applies it.
func checkRedaction(rules dlq.RedactionRules) error {
	if _, err := dlq.NewRedactor(rules); err != nil {
		return fmt.Errorf("it must be a rule such as $.card.number or $..password, of headers a name or a pattern with *: %w", err)
	}
	return nil
}
