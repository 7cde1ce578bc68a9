package app

import (
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
	"github.com/postrider/postrider/internal/testenv/pgtest"
)

// TestBrokersAreAsked: serve answers what its brokers say of topics and groups, and what the doctor finds of it.
func TestBrokersAreAsked(t *testing.T) {
	t.Parallel()
	db, b := pgtest.New(t), kafkatest.Kfake(t)
	if err := migrations.ApplyRoles(t.Context(), db.Conn(t)); err != nil {
		t.Fatal(err)
	}
	b.CreateTopic(t, "postrider.dlq", 1, nil)
	a := run(t, Options{Config: settings(t, db.As("postrider_relay"), b.Addrs...)})
	ann := newPerson(t, a, "ann", access.Admin)
	there := map[string]bool{}
	for _, topic := range ann.ask("GET", "/topics", "")["items"].([]any) {
		v := topic.(map[string]any)
		there[v["topic"].(string)] = v["exists"].(bool)
	}
	if is, named := there["postrider.dlq"]; !is || len(there) < 2 {
		t.Errorf("topics: %v, %v", there, named)
	}
	eventually(t, "the group of the collectors", func() (bool, string) {
		got, err := ann.do("GET", "/consumers", "")
		if err != nil {
			return false, err.Error()
		}
		for _, group := range got["items"].([]any) {
			if v := group.(map[string]any); v["collector"] == true && v["members"] == 1.0 {
				return true, ""
			}
		}
		return false, "not there"
	})
	report := ann.ask("GET", "/doctor", "")
	verdicts := map[string]string{}
	for _, finding := range report["findings"].([]any) {
		v := finding.(map[string]any)
		verdicts[v["group"].(string)+" "+v["check"].(string)] = v["verdict"].(string)
	}
	if verdicts["database connection"] != "ok" || verdicts["schema rights"] != "ok" || verdicts["kafka brokers"] != "ok" || verdicts["topics existence"] == "ok" || report["examined_at"] == nil {
		t.Errorf("%v", report)
	}
}
