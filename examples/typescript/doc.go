// Package typescript tests the example in TypeScript: programs that write events and that consume them, with retry topics
// and an inbox. It has no Go code of its own.
package typescript
