package migrations

// LockKey is the key of the migrators' advisory lock.
const LockKey = lockKey
