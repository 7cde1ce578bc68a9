package app

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// sourceRegistry registers the metrics of one source with the label source, and takes them away when the source goes.
type sourceRegistry struct {
	to prometheus.Registerer
	// sparse leaves out series that are 0, but for those of alwaysShown: hundreds of quiet sources would have tens of
	// thousands of them.
	sparse bool

	mu  sync.Mutex
	all []prometheus.Collector
}

func newSourceRegistry(to prometheus.Registerer, name string, sparse bool) *sourceRegistry {
	return &sourceRegistry{to: prometheus.WrapRegistererWith(prometheus.Labels{"source": name}, to), sparse: sparse}
}

// Register implements prometheus.Registerer.
func (r *sourceRegistry) Register(c prometheus.Collector) error {
	if r.sparse {
		c = nonZero{c}
	}
	if err := r.to.Register(c); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, c)
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *sourceRegistry) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer.
func (r *sourceRegistry) Unregister(c prometheus.Collector) bool {
	if r.sparse {
		c = nonZero{c}
	}
	return r.to.Unregister(c)
}

func (r *sourceRegistry) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		r.to.Unregister(c)
	}
	r.all = nil
}

// alwaysShown are the metrics that a quiet source has: whether it is led, and what alerts compare.
var alwaysShown = []string{"postrider_outbox_leading", "postrider_outbox_pending", "postrider_outbox_oldest_due_seconds",
	"postrider_outbox_backlog_read_timestamp_seconds", "postrider_outbox_dead_lettered_total"}

// nonZero leaves out series that are 0.
type nonZero struct{ prometheus.Collector }

// Collect implements prometheus.Collector.
func (z nonZero) Collect(to chan<- prometheus.Metric) {
	from := make(chan prometheus.Metric)
	go func() {
		defer close(from)
		z.Collector.Collect(from)
	}()
	for m := range from {
		if shown(m) {
			to <- m
		}
	}
}

func shown(m prometheus.Metric) bool {
	desc := m.Desc().String()
	for _, name := range alwaysShown {
		if strings.Contains(desc, `"`+name+`"`) {
			return true
		}
	}
	var d dto.Metric
	if err := m.Write(&d); err != nil {
		return true // the scrape says what is wrong
	}
	return d.GetCounter().GetValue() != 0 || d.GetGauge().GetValue() != 0 || d.GetHistogram().GetSampleCount() != 0
}
