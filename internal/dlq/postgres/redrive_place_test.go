package postgres

import "testing"

// TestARedriveKeepsThePlace: a message that is sent again has the partition and the timestamp that its writer chose, and of
// another topic the timestamp alone.
func TestARedriveKeepsThePlace(t *testing.T) {
	t.Parallel()
	r := newRedriving(t)
	r.die(1, nil)
	mustExec(t, r.subject.pool, `update postrider.outbox_exception set partition = 3, timestamp = timestamptz '2021-03-04T05:06:07Z'`)
	for topic, want := range map[string]string{"orders": "3 1614834367", "other": "none 1614834367"} {
		mustExec(t, r.subject.pool, `select postrider.dlq_redrive_letters(array[letter_id], array[gen_random_uuid()], array[$1], array[null::jsonb], false, null) from postrider.dlq_letter`, topic)
		var got string
		if err := r.subject.pool.QueryRow(t.Context(), `select coalesce(partition::text, 'none') || ' ' || extract(epoch from timestamp)::bigint from postrider.outbox_event order by id desc limit 1`).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("sent again to %s: %s, want %s", topic, got, want)
		}
	}
}
