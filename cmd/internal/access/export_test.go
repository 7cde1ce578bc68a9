package access

import "time"

// AuditList is the query of History.
var AuditList = auditList

// Resum gives a changed token the checksum that fits.
func Resum(token string) string {
	body := token[:len(token)-checksumDigits]
	return body + checksum(body)
}

// SetClock sets what a Limiter takes as now.
func (l *Limiter) SetClock(now func() time.Time) { l.now = now }

// Remembered is how many clients a Limiter knows.
func (l *Limiter) Remembered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.clients)
}

// Outlive lets the time go by for which keys are remembered.
func Outlive(s *Store) {
	s.working.mu.Lock()
	defer s.working.mu.Unlock()
	for id, k := range s.working.keys {
		k.until = k.until.Add(-Remembered)
		s.working.keys[id] = k
	}
}
