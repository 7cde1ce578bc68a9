// Package packaging tests the files shipped beside the binary: the Helm chart, whose objects are checked by a module of
// its own under deploy/helm/check and whose settings are read here by the product's own reader, compose.yaml, and the pages
// for people who use it and run it: their commands, flags, settings, files and links.
package packaging
