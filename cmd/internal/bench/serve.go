package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"

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
	cfg, err := config.Load(config.Sources{Flags: settings})
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

// relaySide says how a relay is to run. Zero values are the product's defaults.
type relaySide struct {
	batch, workers int
	// days is outbox.retention_days: 0 deletes published events, anything else marks them.
	days int
	// doorbell is "on", "off" or empty for the default.
	doorbell string
	roles    string // defaults to the relay alone
	spans    string // where spans of every batch go; none where it is empty
	plugins  bool   // with those of statements and of records in the client
}

// doorbellKey is the setting that lets writers wake the relay, in versions that have it.
const doorbellKey = "outbox.doorbell"

// hasDoorbell reports whether this version has one; without, only polling can be measured.
func hasDoorbell() bool { return doorbell() != nil }

func doorbell() *config.Key {
	keys := config.Keys()
	if i := slices.IndexFunc(keys, func(k config.Key) bool { return k.String() == doorbellKey }); i >= 0 {
		return &keys[i]
	}
	return nil
}

// settings are the keys of the configuration that this side needs.
func (s relaySide) settings(database, brokers string) map[string]string {
	out := map[string]string{
		"database.url": database, "kafka.brokers": brokers, "http.address": "127.0.0.1:0", "dlq.topic": dlqTopic,
		"log.level": "warn", "log.format": "text",
		"outbox.retention_days": strconv.Itoa(s.days),
	}
	if s.batch > 0 {
		out["outbox.batch_size"] = strconv.Itoa(s.batch)
	}
	if s.workers > 0 {
		out["outbox.workers"] = strconv.Itoa(s.workers)
	}
	if s.spans != "" {
		out["tracing.enabled"], out["tracing.endpoint"], out["tracing.sample_percent"] = "true", s.spans, "100"
		out["tracing.database"], out["tracing.kafka_client"] = strconv.FormatBool(s.plugins), strconv.FormatBool(s.plugins)
	}
	if k := doorbell(); k != nil && s.doorbell != "" {
		out[doorbellKey] = s.doorbell
		if k.Kind() == "bool" {
			out[doorbellKey] = strconv.FormatBool(s.doorbell == "on")
		}
	}
	return out
}

// text names the settings for a table.
func (s relaySide) text() string {
	out := "defaults"
	if s.batch > 0 {
		out = fmt.Sprintf("batch %d, %d workers", s.batch, s.workers)
	}
	if s.days == 0 {
		return out + ", deletes"
	}
	return out + ", marks"
}

// startRelay starts a relay that waits for the word.
func (r *rig) startRelay(b *broker, database string, s relaySide, name string) (*child, error) {
	settings, err := json.Marshal(s.settings(database, b.address))
	if err != nil {
		return nil, err
	}
	roles := s.roles
	if roles == "" {
		roles = string(app.Relay)
	}
	env := []string{"BENCH_SETTINGS=" + string(settings), "BENCH_ROLES=" + roles}
	if r.o.profile != "" {
		r.profiles++
		env = append(env, "BENCH_PROFILE="+filepath.Join(r.o.profile, fmt.Sprintf("%03d-%s.pprof", r.profiles, name)))
	}
	c, err := startSelf("child-serve", env...)
	if err != nil {
		return nil, err
	}
	return c, c.ready()
}
