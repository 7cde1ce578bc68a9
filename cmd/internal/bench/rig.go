package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/loop"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/pgserver"
)

// template is the database that is migrated once and copied for the sides.
const template = "postrider"

// rig is what all scenarios use.
type rig struct {
	o          *options
	log        io.Writer
	server     *pgserver.Server
	mu         sync.Mutex
	admin      *pgx.Conn // to the maintenance database; for one at a time
	postmaster int
	profiles   atomic.Int64
	stages     atomic.Int64
	peers      peersProgram
}

// newRig runs a PostgreSQL that keeps its promises (fsync and synchronous_commit on), migrated.
func newRig(ctx context.Context, o *options, log io.Writer) (_ *rig, err error) {
	r := &rig{o: o, log: log}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if o.profile != "" {
		if err := os.MkdirAll(o.profile, 0o755); err != nil {
			return nil, fmt.Errorf("-profile: %w", err)
		}
	}
	return r, r.startPostgres(ctx, map[string]string{"shared_buffers": "1GB", "max_wal_size": "8GB", "max_connections": "800"})
}

// another is a rig with a smaller PostgreSQL of its own. Its caller closes it.
func (r *rig) another(ctx context.Context) (*rig, error) {
	other := &rig{o: r.o, log: r.log}
	err := other.startPostgres(ctx, map[string]string{"shared_buffers": "64MB", "max_wal_size": "1GB", "max_connections": "100"})
	if err != nil {
		other.close()
		return nil, err
	}
	return other, nil
}

// startPostgres runs a server with these settings and what all servers have.
func (r *rig) startPostgres(ctx context.Context, sizes map[string]string) (err error) {
	settings := map[string]string{
		"fsync": "on", "synchronous_commit": "on", "checkpoint_timeout": "30min",
		// For the sides that read the log; all sides' writers pay the little that it adds.
		"wal_level": "logical", "max_wal_senders": "20", "max_replication_slots": "20",
	}
	maps.Copy(settings, sizes)
	r.server, err = pgserver.Start(ctx, pgserver.Options{Database: template, TempDir: r.o.postgresDir, Settings: settings})
	if err != nil {
		return err
	}
	if err := migrate(ctx, r.server.URL()); err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	if r.admin, err = pgx.Connect(ctx, r.urlOf("postgres")); err != nil {
		return err
	}
	var backend int
	if err := r.admin.QueryRow(ctx, "select pg_backend_pid()").Scan(&backend); err != nil {
		return err
	}
	r.postmaster, err = parentOf(backend)
	return err
}

func migrate(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	all, err := migrations.All()
	if err != nil {
		return err
	}
	_, err = migrations.New(conn, all).Up(ctx)
	return err
}

func (r *rig) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	if r.admin != nil {
		errs = append(errs, r.admin.Close(ctx))
	}
	if r.server != nil {
		errs = append(errs, r.server.Stop(ctx))
	}
	r.peers.remove()
	if err := errors.Join(errs...); err != nil {
		r.say("stop PostgreSQL: %v", err)
	}
}

// say reports progress.
func (r *rig) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.log, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// facts describe the machine and what ran on it.
func (r *rig) facts() string {
	facts := fmt.Sprintf("%s; %d cores (%s), PostgreSQL %s (wal_level logical, fsync on) with its files on %s, %s with its files on %s, %s; %d keys, %d bytes of payload, nothing compressed; medians of %d (least–most)",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), processor(), r.server.Version(), filesystem(r.o.postgresDir), versions(),
		filesystem(r.o.kafkaDir), runtime.Version(), r.o.keys, r.o.payload, r.o.runs)
	if r.o.quick {
		facts += "; **-quick: small sizes, the figures mean little**"
	}
	return facts
}

// processor is the name of the processor as Linux knows it.
func processor() string {
	raw, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func (r *rig) urlOf(database string) string {
	return strings.Replace(r.server.URL(), "/"+template+"?", "/"+database+"?", 1)
}

// database is one side's own, so that sides can keep their rows while they take turns.
type database struct {
	rig  *rig
	name string
	url  string
	conn *pgx.Conn
}

// administer runs a statement on the maintenance database.
func (r *rig) administer(ctx context.Context, sql string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.admin.Exec(ctx, sql)
	return err
}

// newDatabase copies the template, or makes an empty database.
func (r *rig) newDatabase(ctx context.Context, name string, migrated bool) (*database, error) {
	d := &database{rig: r, name: name, url: r.urlOf(name)}
	sql := "create database " + pgx.Identifier{name}.Sanitize()
	if migrated {
		sql += " template " + template
	}
	if err := r.administer(ctx, sql); err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	var err error
	if d.conn, err = pgx.Connect(ctx, d.url); err != nil {
		d.drop()
		return nil, err
	}
	return d, nil
}

// dropTries is how often a database is dropped until that is given up.
const dropTries = 50

// drop removes the database and its files.
func (d *database) drop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if d.conn != nil {
		_ = d.conn.Close(ctx)
	}
	var err error
	for range dropTries {
		// A replication slot with a reader keeps the database; other connections go with it.
		err = d.rig.administer(ctx, "select pg_terminate_backend(active_pid) from pg_replication_slots where active_pid is not null and database = '"+d.name+"'")
		if err == nil {
			err = d.rig.administer(ctx, "drop database if exists "+pgx.Identifier{d.name}.Sanitize()+" with (force)")
		}
		if err == nil || loop.Sleep(ctx, 100*time.Millisecond) != nil {
			break
		}
	}
	if err != nil {
		d.rig.say("drop database %s: %v", d.name, err)
	}
}

// exec runs statements, one at a time.
func (d *database) exec(ctx context.Context, statements ...string) error {
	for _, sql := range statements {
		if _, err := d.conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// bulk loads tables as a restore would: references unchecked, no triggers, and the indexes built afterwards.
func (d *database) bulk(ctx context.Context, load func() error, tables ...string) error {
	rows, err := d.conn.Query(ctx, `select indexrelid::regclass::text, pg_get_indexdef(indexrelid)
		from pg_index where indrelid = any ($1::text[]::regclass[]) and not indisunique`, tables)
	if err != nil {
		return err
	}
	type index struct{ Name, Definition string }
	indexes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[index])
	if err != nil {
		return err
	}
	for _, i := range indexes {
		if err := d.exec(ctx, "drop index "+i.Name); err != nil {
			return err
		}
	}
	if err := d.exec(ctx, "set session_replication_role = replica", "set maintenance_work_mem = '256MB'"); err != nil {
		return err
	}
	if err := load(); err != nil {
		return err
	}
	for _, i := range indexes {
		if err := d.exec(ctx, i.Definition); err != nil {
			return err
		}
	}
	return d.exec(ctx, "reset session_replication_role", "reset maintenance_work_mem")
}
