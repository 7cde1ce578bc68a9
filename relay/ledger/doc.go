// Package ledger keeps long-running work in order: tasks that services register, their steps, and what becomes
// of those that get stuck. A task's states are data of its template; only the database moves a task, by functions
// that every service may call, in whatever language.
package ledger
