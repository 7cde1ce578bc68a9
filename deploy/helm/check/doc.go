// Package check tests the Helm chart with the real Helm and the types of Kubernetes. It is a module of its own, because
// what it needs is none of the product's business; cmd/internal/packaging runs it.
package check
