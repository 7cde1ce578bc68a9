package config

// What Postrider itself writes to its own topics, as OwnTopics has it.
const (
	ownDeadLetters = "dead letters"
	ownLifecycle   = "lifecycle events"
)

// OwnTopics returns the topics that Postrider itself writes, each with what for: every dead-letter topic that an event may
// go to, and that of lifecycle events. Services may not write to them. No setting names the retry topics of consumers:
// they are their groups'.
func (c Config) OwnTopics() map[string]string {
	own := map[string]string{}
	if c.Tasks.LifecycleTopic != "" {
		own[c.Tasks.LifecycleTopic] = ownLifecycle
	}
	for _, topic := range c.DLQTopics() {
		own[topic] = ownDeadLetters
	}
	return own
}
