package access

import (
	"context"
	"fmt"
)

// ConsoleURL returns where the console is served, as SetConsoleURL noted it; empty where it did not.
func (s *Store) ConsoleURL(ctx context.Context) (url string, err error) {
	if err = s.pool.QueryRow(ctx, consoleURL).Scan(&url); err != nil {
		return "", fmt.Errorf("read where the console is served: %w", err)
	}
	return url, nil
}

// SetConsoleURL notes in the database where the console is served, for sessions that begin later. postrider dev does so in its
// own database: it may serve on any free port, and a command that has only the address of the database could not know it. It
// needs the rights of the database's owner.
func (s *Store) SetConsoleURL(ctx context.Context, url string) error {
	var command string
	err := s.pool.QueryRow(ctx, consoleURLNote, url).Scan(&command)
	if err == nil {
		_, err = s.pool.Exec(ctx, command)
	}
	if err != nil {
		return fmt.Errorf("note where the console is served: %w", err)
	}
	return nil
}
