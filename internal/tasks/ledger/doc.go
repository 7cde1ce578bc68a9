// Package ledger keeps long-running work in order: tasks that services register, their steps, and what becomes
// of tasks that get stuck. A task's states are data of its template. Only the database moves a task, by functions
// that every service may call, in whatever language.
package ledger
