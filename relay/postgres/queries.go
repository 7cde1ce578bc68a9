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
	readDetails     = query("read_details")
	readLarge       = query("read_large")
	followWater     = query("follow_water")
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
	letterTopics    = query("letter_topics")
	postponeLetters = query("postpone_letters")
	liftLetterHolds = query("lift_letter_holds")
	parkCrowd       = query("park_crowd")

	holdForRelease     = query("hold_for_release")
	findEvent          = query("find_event")
	skipEvent          = query("skip_event")
	probeHoldNow       = query("probe_hold_now")
	putBackEvent       = query("put_back_event")
	letRedrivenThrough = query("let_redriven_through")
	findHalting        = query("find_halting")
	releaseKeys        = query("release_keys")
	haltingEvent       = query("halting_event")
	dueShards          = query("due_shards")
	dueHolds           = query("due_holds")
	lockShard          = query("lock_shard")
	lockHold           = query("lock_hold")
	returnScheduled    = query("return_scheduled")
	returnParked       = query("return_parked")
	lockFreeShards     = query("lock_free_shards")
	lockEmptied        = query("lock_emptied_holds")
	lockEmptyHolds     = query("lock_empty_holds")
	endHolds           = query("end_holds")
	pullProbes         = query("pull_probes")
	findFarScheduled   = query("find_far_scheduled")
	pullScheduled      = query("pull_scheduled")
	readStatus         = query("read_status")
	listHolds          = query("list_holds")
	lowerWater         = query("lower_water")
	readLastID         = query("read_last_id")
	openFence          = query("open_fence")
	fenceClosed        = query("fence_closed")
	lockLagging        = query("lock_lagging_shards")
	raiseWater         = query("raise_water")
	findSunken         = query("find_sunken")

	nextDue        = query("next_due")
	armDoorbell    = query("arm_doorbell")
	disarmDoorbell = query("disarm_doorbell")
	ringDoorbell   = query("ring_doorbell")

	lockPurge         = query("lock_purge")
	movePurge         = query("move_purge")
	findPublished     = query("find_published")
	purgePublished    = query("purge_published")
	findDeadLettered  = query("find_dead_lettered")
	purgeDeadLettered = query("purge_dead_lettered")
	findKeys          = query("find_idempotency_keys")
	purgeKeys         = query("purge_idempotency_keys")
	readBacklog       = query("read_backlog")
	isPartitioned     = query("is_partitioned")
	addPartitions     = query("add_partitions")
	dropPartition     = query("drop_partition")
	partitionPrepare  = query("partition_prepare")
	partitionValidate = query("partition_validate")
	partitionConvert  = query("partition_convert")
	partitionForget   = query("partition_forget")
)
