// Package packaging tests what is shipped beside the binary: the Helm chart, whose objects are checked by a module of
// its own under deploy/helm/check and whose settings are read here by the product's own reader, and the pages for those
// who run it.
package packaging
