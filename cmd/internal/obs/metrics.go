package obs

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry returns a registry with the metrics that every process has: Go's runtime, the
// process itself, and postrider_build_info, whose labels say what runs.
func NewRegistry() *prometheus.Registry {
	b := ReadBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "postrider_build_info",
		Help:        "1, with the build as labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "go_version": b.Go},
	})
	info.Set(1)
	r := prometheus.NewRegistry()
	r.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}
