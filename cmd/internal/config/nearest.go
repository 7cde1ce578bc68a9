package config

import "github.com/postrider/postrider/internal/nearest"

// Nearest returns the candidate that takes the fewest edits to reach from name.
func Nearest(name string, candidates []string) string {
	best, _ := nearest.Of(name, candidates)
	return best
}
