// Package soak drives the relay under load while it is killed, and judges what came out with the
// history checker. Its tests run for seconds with the other tests; `make soak` runs them for as long
// as SOAK_SECONDS says.
package soak
