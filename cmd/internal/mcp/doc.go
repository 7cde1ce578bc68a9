// Package mcp serves agents over the Model Context Protocol, on standard input and output or over HTTP: tools to
// triage dead letters, which only read, and outbox_sync, which also publishes, tries again and cleans up. Reading goes
// through the API of package httpapi, in this process, with the scopes, limits and redaction of the caller's key.
//
// Three rules hold for what changes something. It must be allowed for the server, and the caller's key must have the
// scope. It is previewed first, and done only when the preview is confirmed, once, soon, by the same key and with the
// same arguments. And it is in the audit log before it begins.
//
// A key without the scope read:payload sees nothing of what messages carried; see withhold. One with it sees what the
// rules of redaction leave, and each look is in the audit log.
//
// Texts that came out of messages may be written for the agent that reads them. So they stand between two lines with
// a mark that is drawn anew for each answer; see enclose.
package mcp
