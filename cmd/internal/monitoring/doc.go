// Package monitoring tests what watches Postrider: the alerts and dashboards under deploy, against the metrics that a
// process really shows, with the real Prometheus and its promtool.
package monitoring
