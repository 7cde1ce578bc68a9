package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
)

// postrider is the product: the relay as `postrider serve` runs it.
type postrider struct {
	alone
	// changed are settings beside the defaults.
	changed map[string]string
	roles   string // defaults to the relay alone
}

const postriderName = "Postrider"

// newPostrider has these settings beside the defaults.
func newPostrider(changed map[string]string) postrider {
	return postrider{alone: alone{ours}, changed: changed}
}

func (p postrider) title() (name, settings string) {
	if len(p.changed) == 0 {
		return postriderName, "defaults"
	}
	return postriderName + ", chosen settings", settingsText(p.changed)
}

func settingsText(settings map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		parts = append(parts, k+"="+settings[k])
	}
	return strings.Join(parts, ", ")
}

func (p postrider) start(_ context.Context, s *stage) (process, error) {
	c, err := s.startServe(s.b, s.d.url, p.changed, p.roles)
	if err == nil {
		err = c.start()
	}
	if c == nil {
		return nil, err
	}
	return c, err
}

// settingsOf reads settings as -postrider has them: "outbox.batch_size=5000,…".
func settingsOf(list string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range split(list) {
		key, value, ok := strings.Cut(s, "=")
		if !ok || !hasKey(key) {
			return nil, fmt.Errorf("%q is no setting of this version: KEY=VALUE with a key as postrider.yaml has it, such as kafka.compression", s)
		}
		out[key] = value
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no settings")
	}
	return out, nil
}

// hasKey reports whether this version has a setting.
func hasKey(name string) bool {
	return slices.ContainsFunc(config.Keys(), func(k config.Key) bool { return k.String() == name })
}

// everyRole is what serve runs by default.
func everyRole() string {
	var names []string
	for _, role := range app.Roles() {
		names = append(names, string(role))
	}
	return strings.Join(names, ",")
}
