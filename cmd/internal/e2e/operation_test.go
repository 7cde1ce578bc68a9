package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/postrider/postrider/internal/testenv/buildtest"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestServeIsKilledDuringAnOperation: the process that treats it, relays it and records what dies is killed twice while
// it works. The operation ends by itself once serve runs again, every message arrives, copies after a kill are known by
// their event id, and what the commands say adds up.
func TestServeIsKilledDuringAnOperation(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		const events = 300
		db := pgtest.New(t)
		conn := db.Conn(t)
		topic, dlq := b.Topic(t, 3, map[string]string{"max.message.bytes": "1000"}), b.Topic(t, 1, nil)
		program := buildtest.Program(t, "cmd/postrider")
		cli := func(args ...string) string {
			t.Helper()
			return command(t, program, append(args, "--database-url", db.URL)...)
		}
		serve := func() *exec.Cmd {
			t.Helper()
			cmd := exec.Command(program, "serve", "--http", "127.0.0.1:0")
			cmd.Env = append(os.Environ(), "DATABASE_URL="+db.URL, "KAFKA_BROKERS="+strings.Join(b.Addrs, ","), "DLQ_TOPIC="+dlq, "DLQ_GROUP="+dlq, "OUTBOX_STORM_EVENTS=0")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // where it was not waited for before
			return cmd
		}
		running := serve()
		command(t, psqlPath(t), db.URL, "-qAtc", fmt.Sprintf(`select count(postrider.outbox_publish('%s', 'k' || n %% 7, jsonb_build_object('n', n, 'filler', repeat('x', 2000)))) from generate_series(1, %d) n`, topic, events))
		await(t, conn, "all have died", fmt.Sprintf(`select count(*) = %d from postrider.dlq_entry where resolution_status = 'pending'`, events))
		limit := "100000"
		if results, err := b.Admin(t).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, topic); err != nil || results[0].Err != nil {
			t.Fatalf("raise the limit of the topic: %v, %v", err, results)
		}
		id := regexp.MustCompile(`(?m)^Operation +` + uuidPattern).FindStringSubmatch(cli("op", "plan", "--topic", topic, "--name", "killed", "--canary", "10", "--rate", "100"))[1]
		cli("op", "start", id)
		for _, share := range []int{4, 2} {
			await(t, conn, "progress", fmt.Sprintf(`select done > %d from postrider.dlq_operation where dlq_operation_uuid = '%s'`, events/share, id))
			if err := running.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = running.Wait() // killed
			if at := operationOf(t, conn, id); at.State != "running" || at.Done == events {
				t.Errorf("too late: %+v", at)
			}
			running = serve()
		}
		var o operation
		if err := json.Unmarshal([]byte(cliStdout(t, program, "op", "start", id, "--wait", "-o", "json", "--database-url", db.URL)), &o); err != nil {
			t.Fatal(err)
		}
		if o != (operation{State: "completed", Items: events, Done: events, Delivered: events}) {
			t.Errorf("%+v", o)
		}
		await(t, conn, "all are closed", fmt.Sprintf(`select count(*) = %d from postrider.dlq_entry where resolution_status = 'manually_resolved'`, events))
		byReplay, last := map[string]string{}, map[string]int{}
		for _, r := range readTopic(t, b, topic, events) {
			replay, event := r.headers["replay_id"], r.headers["postrider-event-id"]
			before, copied := byReplay[replay]
			if replay == "" || copied && before != event {
				t.Errorf("redrive %q is the event %s and the event %s", replay, before, event)
			}
			byReplay[replay] = event
			var v struct{ N int }
			if err := json.Unmarshal([]byte(r.value), &v); err != nil {
				t.Fatal(err)
			}
			if !copied && v.N < last[r.key] {
				t.Errorf("key %s: %d after %d", r.key, v.N, last[r.key])
			}
			last[r.key] = max(last[r.key], v.N)
		}
		if len(byReplay) != events {
			t.Errorf("%d redrives are in the topic, want %d", len(byReplay), events)
		}
	})
}

// operation is what the commands say of one.
type operation struct {
	State     string `json:"state"`
	Items     int    `json:"items"`
	Done      int    `json:"done"`
	Skipped   int    `json:"skipped"`
	Failed    int    `json:"failed"`
	Delivered int    `json:"delivered"`
	CameBack  int    `json:"came_back"`
}

func operationOf(t *testing.T, conn *pgx.Conn, id string) (o operation) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), `select state, items, done, skipped, failed, delivered, came_back from postrider.dlq_operation where dlq_operation_uuid = $1`, id).
		Scan(&o.State, &o.Items, &o.Done, &o.Skipped, &o.Failed, &o.Delivered, &o.CameBack); err != nil {
		t.Fatal(err)
	}
	return o
}

// cliStdout is command, without what goes to standard error.
func cliStdout(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
