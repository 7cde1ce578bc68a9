// Package python tests the example for other languages: a Python program that writes events and one that reads what
// Postrider sends. It has no Go code of its own.
package python
