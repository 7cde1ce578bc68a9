package migrations

// Statements is how many statements are found in SQL.
func Statements(sql string) int { return len(splitStatements(sql)) }

// LockKey is the key of the migrators' advisory lock.
const LockKey = lockKey
