package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/postrider/postrider/cmd/internal/app"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/cmd/internal/obs"
)

// serve is `postrider serve`: the same settings, the same wiring, the same engine. It differs in that it
// waits for the word between making its parts and running them. No connection of the relay is open by then. Then it
// says where it listens, if it does.
func serve(ctx context.Context, g *gate) (err error) {
	var settings map[string]string
	if err := json.Unmarshal([]byte(os.Getenv("BENCH_SETTINGS")), &settings); err != nil {
		return fmt.Errorf("BENCH_SETTINGS: %w", err)
	}
	cfg, err := config.Load(config.From{File: os.Getenv("BENCH_CONFIG"), Flags: settings})
	if err != nil {
		return err
	}
	roles, err := app.ParseRoles(os.Getenv("BENCH_ROLES"))
	if err != nil {
		return err
	}
	log, err := obs.NewLogger(os.Stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	a, err := app.New(ctx, app.Options{Config: cfg, Roles: roles, Logger: log})
	if err != nil {
		return err
	}
	if err := g.await(ctx); err != nil {
		return errors.Join(err, a.Stop(context.WithoutCancel(ctx)))
	}
	if address := a.Addr(); address != "" {
		fmt.Println(address)
	}
	if path := os.Getenv("BENCH_PROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("-profile: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("-profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	return a.Run(ctx)
}

// plainSettings are the settings that a relay needs to run beside others on this machine; all else are the defaults.
func plainSettings(database, brokers string) map[string]string {
	return map[string]string{
		"database.url": database, "kafka.brokers": brokers, "http.address": "127.0.0.1:0", "log.level": "warn", "log.format": "text",
	}
}

// startServe starts a process of the product with some settings beside the defaults, by default of the relay's role alone.
// It waits for the word. Without a database it carries the sources of a settings file alone, which env names.
func (r *rig) startServe(b *broker, database string, changed map[string]string, roles string, env ...string) (*child, error) {
	all := plainSettings(database, b.address)
	if database == "" {
		delete(all, "database.url")
	}
	maps.Copy(all, changed)
	settings, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	if roles == "" {
		roles = string(app.Relay)
	}
	env = append(env, "BENCH_SETTINGS="+string(settings), "BENCH_ROLES="+roles)
	if r.o.profile != "" {
		env = append(env, "BENCH_PROFILE="+filepath.Join(r.o.profile, fmt.Sprintf("%03d-%s.pprof", r.profiles.Add(1), roles)))
	}
	c, err := startSelf("child-serve", env...)
	if err != nil {
		return nil, err
	}
	return c, c.ready()
}
