package obs

import (
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Pools shows the pools of database connections of a process. Their counters are in memory, so a scrape asks no
// database.
type Pools struct {
	connections, max                         *prometheus.Desc
	acquires, waits, waited, canceled, fresh *prometheus.Desc

	mu    sync.Mutex
	pools map[string]*pgxpool.Pool
}

// NewPools registers the metrics postrider_database_pool_*.
func NewPools(reg prometheus.Registerer) *Pools {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("postrider_database_pool_"+name, help, append([]string{"pool"}, labels...), nil)
	}
	p := &Pools{
		connections: desc("connections", "Database connections of a pool (relay, service, api), by state: acquired (in use), idle, constructing (being opened).", "state"),
		max:         desc("max_connections", "The most connections that the pool may have."),
		acquires:    desc("acquires_total", "Connections that were taken from the pool."),
		waits:       desc("acquire_waits_total", "Connections that had to be waited for, because none was free."),
		waited:      desc("acquire_seconds_total", "Time for which connections were waited for, all together."),
		canceled:    desc("acquire_cancels_total", "Waits for a connection that were given up."),
		fresh:       desc("opened_connections_total", "Connections that were opened."),
		pools:       map[string]*pgxpool.Pool{},
	}
	reg.MustRegister(p)
	return p
}

// Add shows a pool under a name, until its process ends: a closed pool is an empty one.
func (p *Pools) Add(name string, pool *pgxpool.Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pools[name] = pool
}

// Describe implements prometheus.Collector.
func (p *Pools) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.connections, p.max, p.acquires, p.waits, p.waited, p.canceled, p.fresh} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *Pools) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	pools := maps.Clone(p.pools)
	p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		s := pools[name].Stat()
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name}, labels...)...)
		}
		counter := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, name)
		}
		gauge(p.connections, float64(s.AcquiredConns()), "acquired")
		gauge(p.connections, float64(s.IdleConns()), "idle")
		gauge(p.connections, float64(s.ConstructingConns()), "constructing")
		gauge(p.max, float64(s.MaxConns()))
		counter(p.acquires, float64(s.AcquireCount()))
		counter(p.waits, float64(s.EmptyAcquireCount()))
		counter(p.waited, s.AcquireDuration().Seconds())
		counter(p.canceled, float64(s.CanceledAcquireCount()))
		counter(p.fresh, float64(s.NewConnsCount()))
	}
}
