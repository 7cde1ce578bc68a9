package kafka

import (
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lastError keeps the newest connection error, so that an outcome that is not known can say why.
type lastError struct {
	mu  sync.Mutex
	err error
	at  time.Time
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (l *lastError) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.at = err, time.Now()
}

// suffix is "; last connection error: …" when the newest connection attempt failed lately.
func (l *lastError) suffix() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil || time.Since(l.at) > time.Minute {
		return ""
	}
	return "; last connection error: " + l.err.Error()
}
