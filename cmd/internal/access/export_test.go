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

// Outlive lets the time go by for which keys and sessions are remembered.
func Outlive(s *Store) {
	s.working.outlive()
	s.sessions.outlive()
}

func (w *working[T]) outlive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, k := range w.known {
		k.until = k.until.Add(-Remembered)
		w.known[id] = k
	}
}
