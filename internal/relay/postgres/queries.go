package postgres

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// Queries are the .sql files with the statements of this package.
func Queries() fs.FS { return queryFiles }

// query returns the text of queries/NAME.sql. A missing file is a programming error and stops the
// program at start.
func query(name string) string {
	text, err := queryFiles.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("internal/relay/postgres: %v", err))
	}
	return string(text)
}

var (
	claimLetters    = query("claim_letters")
	settleLetters   = query("settle_letters")
	letterTopics    = query("letter_topics")
	letterDesk      = query("letter_desk")
	postponeLetters = query("postpone_letters")
	liftLetterHolds = query("lift_letter_holds")
	upsertHolds     = query("upsert_holds")
	releaseHold     = query("release_hold")
	giveUpHold      = query("give_up_hold")
	skipEvent       = query("skip_event")
	redriveEvent    = query("redrive_event")
	readStatus      = query("read_status")
	readDelivered   = query("read_delivered")
	readLatency     = query("read_latency")
	listHolds       = query("list_holds")
	readLastID      = query("read_last_id")
	armNotifier     = query("arm_notifier")
	disarmNotifier  = query("disarm_notifier")
	notifySelf      = query("notify_self")
	purgeEvents     = query("purge_events")
	purgeExceptions = query("purge_exceptions")
	purgeKeys       = query("purge_keys")
	mergeReceipts   = query("merge_receipts")
	stopRetention   = query("stop_retention")
	readBacklog     = query("read_backlog")
	countHolds      = query("count_holds")
	countLetters    = query("count_letters")
	findHalting     = query("find_halting")
	releaseKeys     = query("release_keys")
)
