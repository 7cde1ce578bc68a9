// Package console is the web console: pages for people, rendered on the server, over the operations of the API in the same
// process. A page asks the API in the name of the person who is signed in, so scopes, limits, redaction and the audit log
// are the API's, and there is no second rule here. pages.go is the table of all pages.
package console
