// Package soak drives the relay under load while it is killed, or while everything around it is broken
// (TestNemesis), and judges what came out with the history checker. Its tests run for seconds with the other
// tests; `make soak` runs them for as long as SOAK_SECONDS says. SOAK_SEED repeats the choices of a run, SOAK_LOGS
// names a directory for the logs of its processes, and SOAK_PAGE a page in which TestNemesis renews its table (docs/faults.md).
package soak
