package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/cmd/internal/plural"
	dlqkafka "github.com/postrider/postrider/internal/dlq/kafka"
	"github.com/postrider/postrider/internal/relay"
	"github.com/postrider/postrider/internal/relay/postgres"
)

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Second)
}

func checkBacklog(ctx context.Context, p *patient) ([]result, error) {
	s, err := postgres.NewStore(p.Database, postgres.StoreOptions{}).Status(ctx)
	return judgeBacklog(s, p.leads, p.limits), err
}

func judgeBacklog(s relay.Status, leads bool, l limits) []result {
	counts := fmt.Sprintf("%s, %d behind holds, %d for their time, %d on their way to the dead-letter topic",
		plural.Of(s.Due, "event is due", "events are due"), s.Parked, s.Scheduled, s.Exhausted)
	late := seconds(s.OldestDueSeconds)
	hint := "postrider outbox status and postrider outbox holds say what they wait for"
	if s.HoldCount == 0 || !leads {
		hint = "no relay works on them: start postrider serve with the role relay, or look at its log"
	}
	switch {
	case late >= l.lateFailure:
		return fail(hint, "%s; the oldest that should have gone by now is %v old", counts, late)
	case late >= l.lateWarning:
		return warn(hint, "%s; the oldest that should have gone by now is %v old", counts, late)
	case !leads && s.Due > 0: // a minute too early for the age, and they will not go by themselves
		return warn(hint, "%s, and no relay leads", counts)
	}
	return well("%s", counts)
}

func checkHolds(ctx context.Context, p *patient) ([]result, error) {
	rows, err := p.Database.Query(ctx, holdsQuery)
	if err != nil {
		return nil, err
	}
	var out []result
	var cause, scope, topic, code string
	var count int
	var age float64
	_, err = pgx.ForEachRow(rows, []any{&cause, &scope, &count, &age, &topic, &code}, func() error {
		out = append(out, judgeHold(relay.Cause(cause), scope, count, seconds(age), topic, code, p.limits)...)
		return nil
	})
	if err == nil && len(out) == 0 {
		out = well("nothing is held that does not end by itself")
	}
	return out, err
}

func judgeHold(cause relay.Cause, scope string, count int, age time.Duration, topic, code string, l limits) []result {
	where := topic
	if count > 1 {
		where += " and others"
	}
	switch cause {
	case relay.CauseHalted:
		return warn("resolve their investigations: postrider dlq list, then dlq requeue or dlq purge --release-keys; postrider outbox holds --cause halted lists them",
			"%s, the oldest for %v: later events of these keys wait (%s)", plural.Of(count, "key is halted", "keys are halted"), age, where)
	case relay.CauseBreaker:
		return warn("mend what refuses the events, then postrider outbox release HOLD; or postrider outbox give-up HOLD, if they are never to go; postrider outbox holds --cause circuit_breaker lists them",
			"%s for %v: too many events failed in one way, and these events wait (%s, %s); everything else goes",
			plural.Of(count, "circuit breaker is open", "circuit breakers are open"), age, where, code)
	case relay.CauseRoute:
		if code == "INVALID_TOPIC_EXCEPTION" {
			return fail("no producer can ever write to such a topic: postrider outbox give-up HOLD makes dead letters of its events; postrider outbox holds --cause route lists them",
				"%s by the brokers for %v: %s (%s)", plural.Of(count, "topic is refused", "topics are refused"), age, where, code)
		}
		return fail("create the topics, or grant Write on them", "%s for %v: %s (%s)", plural.Of(count, "topic cannot be written to", "topics cannot be written to"), age, where, code)
	}
	if age < l.lateWarning {
		return nil
	}
	return fail("look at the brokers", "%s taken nothing for %v: %s (%s)", plural.Of(count, scope+" has", scope+"s have"), age, where, code)
}

func checkCollector(ctx context.Context, p *patient) ([]result, error) {
	group := p.Settings.DLQ.Group
	uncollected, err := dlqkafka.Lag(ctx, p.admin, group, p.topics.letters...)
	if err != nil {
		return nil, err
	}
	var lag int64
	for _, n := range uncollected {
		lag += n
	}
	described, err := p.describeGroup(ctx, group)
	if err != nil {
		return nil, err
	}
	others, err := p.othersCollect(ctx)
	if err != nil {
		return nil, err
	}
	found, err := p.judgeGroup(ctx)
	if err != nil {
		return nil, err
	}
	found = append(found, judgeCollector(group, lag, len(described.Members), others, p.limits)...)
	if len(described.Members) > 0 { // without any, all that waits is reported
		late, err := lateLetters(ctx, p, time.Now())
		if err != nil {
			return found, err
		}
		found = append(found, judgeLate(late, p.limits)...)
	}
	if described.State != "Stable" { // the group has no members, or they are just sharing the topics out
		return found, nil
	}
	there, err := letterTopicsThere(ctx, p)
	if err != nil {
		return found, err
	}
	return append(found, judgeCollected(group, there, described.JoinTopics())...), nil
}

// othersCollect reports whether no session but this examination's is of Postrider. Then members of the collectors' group
// write into another database. Behind a pooler nothing is known, and it is false.
func (p *patient) othersCollect(ctx context.Context) (bool, error) {
	own := p.Database.AcquireAllIdle(ctx)
	pids := make([]int32, len(own))
	for i, conn := range own {
		pids[i] = int32(conn.Conn().PgConn().PID())
		conn.Release()
	}
	var sessions int
	err := p.Database.QueryRow(ctx, sessionsQuery, pids).Scan(&sessions)
	return sessions == 0, err
}

func judgeCollector(group string, lag int64, members int, others bool, l limits) []result {
	switch {
	case members > 0 && others:
		return warn("start postrider serve with the role collector; where two installations share a Kafka, each needs a dlq.topic, a dlq.group and a tasks.lifecycle_topic of its own",
			"the group %s has %s, and no process of Postrider is connected to this database: the dead letters go into another installation's",
			group, plural.Of(members, "collector", "collectors"))
	case members == 0 && lag > 0:
		return fail("start postrider serve with the role collector", "%s, and no member of the group %s collects", plural.Of(lag, "dead letter waits", "dead letters wait"), group)
	case members == 0:
		return warn("start postrider serve with the role collector", "no member of the group %s collects dead letters; none waits", group)
	case lag > l.lag:
		return warn("look at the log of postrider serve, and at the database", "%s for %s", plural.Of(lag, "dead letter waits", "dead letters wait"), plural.Of(members, "collector", "collectors"))
	}
	return well("%s, %s", plural.Of(members, "collector", "collectors"), plural.Of(lag, "dead letter waits", "dead letters wait"))
}

func checkDetector(ctx context.Context, p *patient) ([]result, error) {
	return checkSwitch(ctx, p, "detector", "the detectors of stale tasks", "postrider task detector resume")
}

func checkArchiver(ctx context.Context, p *patient) ([]result, error) {
	return checkSwitch(ctx, p, "archiver", "the archivers of tasks", "postrider archive resume")
}

// checkSwitch looks whether engines of a kind are paused. They are named to people, with the command that ends a pause.
func checkSwitch(ctx context.Context, p *patient, engine, name, command string) ([]result, error) {
	var since time.Time
	var resume *time.Time
	var by, why string
	err := p.Database.QueryRow(ctx, switchQuery, engine).Scan(&since, &by, &why, &resume)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return well("%s are not paused", name), nil
	case err != nil:
		return nil, err
	}
	until := "until a person resumes them"
	if resume != nil {
		until = "until " + resume.UTC().Format(time.RFC3339)
	}
	return warn(command, "%s are paused since %s by %s, %s: %s", name, since.UTC().Format(time.RFC3339), by, until, why), nil
}

// stuck is after how long without a change an operation that runs is worth a word.
const stuck = time.Minute

func checkOperations(ctx context.Context, p *patient) ([]result, error) {
	rows, err := p.Database.Query(ctx, operationsQuery)
	if err != nil {
		return nil, err
	}
	var out []result
	var id, name, state, problem string
	var age float64
	open := 0
	_, err = pgx.ForEachRow(rows, []any{&id, &name, &state, &problem, &age}, func() error {
		open++
		out = append(out, judgeOperation(id, name, state, problem, seconds(age))...)
		return nil
	})
	if err == nil && len(out) == 0 {
		out = well("%s not ended, and none waits for a person", plural.Of(open, "operation has", "operations have"))
	}
	return out, err
}

func judgeOperation(id, name, state, problem string, age time.Duration) []result {
	switch {
	case state == "halted":
		return warn("mend the cause, then postrider op resume "+id+"; or postrider op abort "+id, "the operation %q halted %v ago: %s", name, age, problem)
	case state == "paused":
		return warn("postrider op resume "+id+", or postrider op abort "+id, "the operation %q is paused for %v", name, age)
	case (state == "running" || state == "canary") && age > stuck:
		return warn("check that postrider serve runs, and its log; postrider op show "+id, "the operation %q is %s and has not advanced for %v", name, state, age)
	}
	return nil
}

func checkInvestigations(ctx context.Context, p *patient) ([]result, error) {
	var pending int
	var age float64
	if err := p.Database.QueryRow(ctx, investigationsQuery).Scan(&pending, &age); err != nil {
		return nil, err
	}
	return judgeInvestigations(pending, seconds(age), p.Settings.DLQ.MaxPendingAge), nil
}

func judgeInvestigations(pending int, oldest, limit time.Duration) []result {
	count := plural.Of(pending, "investigation is pending", "investigations are pending")
	if pending > 100_000 {
		count = "more than 100000 investigations are pending"
	}
	if oldest > limit {
		return warn("postrider dlq list --status pending", "%s, the oldest for %v, longer than dlq.max_pending_age_hours", count, oldest)
	}
	if pending > manyPending {
		return warn("postrider dlq groups, then postrider op plan --group ID --name NAME", "%s, more than people can look at one by one; an operation deals with a whole group", count)
	}
	return well("%s", count)
}

// manyPending is how many pending investigations are more than people look at.
const manyPending = 10_000
