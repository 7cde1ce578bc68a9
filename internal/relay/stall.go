package relay

import "time"

// Stall is the reason why the store cannot know that an id is final. It lasts until an operator removes the reason. Then
// events in commit order wait, and gaps stay open. The zero value is none.
type Stall struct {
	// Code is a word for the reason, for example SEQUENCE_CACHE.
	Code string
	// Error says what the problem is and what to do.
	Error string
}

// remindEvery is how often a stall is said again.
const remindEvery = 5 * time.Minute

// reminder says a stall when it begins, now and then while it lasts, and when it is over. It is for one
// goroutine.
type reminder struct {
	said Stall
	at   time.Time
}

// hear is told what the store knows now.
func (m *reminder) hear(r *Relay, s Stall) {
	switch now := time.Now(); {
	case s.Code == "" && m.said.Code != "":
		r.cfg.Logger.Info("ids become final again", "error_code", m.said.Code)
	case s.Code == "", s == m.said && now.Sub(m.at) < remindEvery:
		return
	default:
		r.cfg.Logger.Warn("no id is known to be final, so topics in commit order stand still and gaps stay open",
			"error_code", s.Code, "err", s.Error)
		m.at = now
	}
	m.said = s
}
