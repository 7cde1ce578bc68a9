package postgres

import (
	"embed"
	"fmt"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// query returns the text of queries/NAME.sql. A missing file is a programming error and stops the
// program at start.
func query(name string) string {
	text, err := queryFiles.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("relay/postgres: %v", err))
	}
	return string(text)
}

var (
	lockShards      = query("lock_shards")
	claimEvents     = query("claim_events")
	claimHolds      = query("claim_holds")
	claimCrashes    = query("claim_crashes")
	markBatch       = query("mark_batch")
	unmarkBatch     = query("unmark_batch")
	narrowBatch     = query("narrow_batch")
	countAttempt    = query("count_attempt")
	settlePublished = query("settle_published")
	settleDeleted   = query("settle_deleted")
	settleExhausted = query("settle_exhausted")
	settleScheduled = query("settle_scheduled")
	upsertHolds     = query("upsert_holds")
	parkShards      = query("park_shards")
	parkEvents      = query("park_events")
	proveHolds      = query("prove_holds")
	claimLetters    = query("claim_letters")
	settleLetters   = query("settle_letters")
	liftLetterHold  = query("lift_letter_hold")
	dueShards       = query("due_shards")
	dueHolds        = query("due_holds")
	lockShard       = query("lock_shard")
	lockHold        = query("lock_hold")
	returnScheduled = query("return_scheduled")
	returnParked    = query("return_parked")
	letThrough      = query("let_through")
	postponeProbe   = query("postpone_probe")
	emptyHoldShard  = query("empty_hold_shard")
	endHold         = query("end_hold")
	readStatus      = query("read_status")
	listHolds       = query("list_holds")
	lowerWater      = query("lower_water")
	readLastID      = query("read_last_id")
	openFence       = query("open_fence")
	fenceClosed     = query("fence_closed")
	lockLagging     = query("lock_lagging_shards")
	raiseWater      = query("raise_water")
	findSunken      = query("find_sunken")
	nextDue         = query("next_due")
	armDoorbell     = query("arm_doorbell")
	disarmDoorbell  = query("disarm_doorbell")
	ringDoorbell    = query("ring_doorbell")
)
