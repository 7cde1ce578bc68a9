package config

import "strings"

// removed are settings that there were, and why there are none any more.
var removed = map[string]string{
	"outbox.workers": "one relay leads the outbox and the others stand by; how many batches are at the brokers at once says outbox.dispatches",
}

// removedVariable returns the setting that an environment variable set, and why it is none any more; "" for others.
func removedVariable(name string) (key, why string) {
	for key, why := range removed {
		if strings.TrimPrefix(name, aliasPrefix) == strings.ToUpper(strings.ReplaceAll(key, ".", "_")) {
			return key, why
		}
	}
	return "", ""
}
