package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/migrations"
)

// templateTimeout bounds the making of a template, and the wait for another process that
// makes it.
const templateTimeout = 2 * time.Minute

// sortOrder gives every test the same sort order, whatever the server's default is.
const sortOrder = " encoding 'UTF8' lc_collate 'C' lc_ctype 'C'"

// migratedTemplate returns the name of a template database with all migrations applied, and
// makes it when this server does not have it yet.
func (s *server) migratedTemplate(ctx context.Context) (string, error) {
	s.templateMu.Lock()
	defer s.templateMu.Unlock()
	if s.template != "" {
		return s.template, nil
	}
	all, err := migrations.All()
	if err != nil {
		return "", err
	}
	name, err := s.ensureTemplate(ctx, all)
	if err != nil {
		return "", err
	}
	s.template = name
	return name, nil
}

// ensureTemplate finds or makes the template of some migrations. Its name has their hash, so
// that other versions of the schema have other templates. Processes that want the same one at
// the same time wait for each other on an advisory lock of the maintenance database; a
// template that was left half made is made again.
func (s *server) ensureTemplate(ctx context.Context, all []migrations.Room) (string, error) {
	name, lock := identify(all)
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return "", fmt.Errorf("pgtest: connect to PostgreSQL (%s): %w", s.origin, err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) // and with it the lock
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", lock); err != nil {
		return "", fmt.Errorf("pgtest: wait for another process that makes the template database %s: %w", name, err)
	}
	var finished bool
	err = conn.QueryRow(ctx, "select datistemplate from pg_database where datname = $1", name).Scan(&finished)
	switch {
	case err == nil && finished:
		return name, nil
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return "", fmt.Errorf("pgtest: look for the template database %s: %w", name, err)
	}
	for _, sql := range []string{
		"drop database if exists " + quote(name) + " with (force)",
		"create database " + quote(name) + s.clone("template0") + sortOrder,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return "", fmt.Errorf("pgtest: make the template database: %s: %w", sql, err)
		}
	}
	if err := s.migrate(ctx, name, all); err != nil {
		_, dropErr := conn.Exec(ctx, "drop database "+quote(name)+" with (force)")
		return "", errors.Join(err, dropErr)
	}
	// From here on it counts as finished, and no session connects to it by mistake.
	if _, err := conn.Exec(ctx, "alter database "+quote(name)+" with is_template true allow_connections false"); err != nil {
		return "", fmt.Errorf("pgtest: finish the template database %s: %w", name, err)
	}
	return name, nil
}

// identify derives the name of a template, and the key of the lock for making it, from all that
// decides its content.
func identify(all []migrations.Room) (name string, lock int64) {
	sum := sha256.Sum256([]byte(sortOrder + migrations.New(nil, all).SQL(migrations.ForPsql)))
	return "postrider_template_" + hex.EncodeToString(sum[:8]), int64(binary.BigEndian.Uint64(sum[:8]))
}

func (s *server) migrate(ctx context.Context, name string, all []migrations.Room) error {
	address, err := withDatabase(s.url, name)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("pgtest: connect to the template database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = migrations.New(conn, all).Up(ctx)
	return err
}
