// Package access decides who may do what: API keys with scopes, sessions and one-time links of the web console, limits on
// how often they may ask, the audit log of what they changed, and the answers kept for repeated requests. It owns the
// tables access_*.
package access
