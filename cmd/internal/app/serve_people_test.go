package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/config"
	"github.com/postrider/postrider/internal/dlq"
	"github.com/postrider/postrider/internal/migrations"
	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// person is a user at the API of an app, with a key.
type person struct {
	t    *testing.T
	app  *App
	name string
	key  string
}

func newPerson(t *testing.T, a *App, name string, scopes ...access.Scope) *person {
	t.Helper()
	_, key, err := a.Services().Access.Create(access.WithActor(t.Context(), access.Actor{Name: "test"}), access.NewKey{Name: name, Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	return &person{t, a, name, key}
}

// send makes a request on a connection of its own. The error is about what came before an answer, or cut it.
func (p *person) send(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	if path != "/readyz" {
		path = "/v1" + path
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.app.Addr()+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-API-Key", p.key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// do makes a request, and returns its data.
func (p *person) do(method, path, body string) (map[string]any, error) {
	status, raw, err := p.send(p.t.Context(), method, path, body)
	var answer struct{ Data map[string]any }
	if err := errors.Join(err, json.Unmarshal(raw, &answer)); err != nil || status >= 300 {
		return nil, fmt.Errorf("%s %s %s: %d %s, %w", method, path, body, status, raw, err)
	}
	return answer.Data, nil
}

// ask is do, of what must work.
func (p *person) ask(method, path, body string) map[string]any {
	p.t.Helper()
	data, err := p.do(method, path, body)
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

// operation waits for the end of an operation, and returns it.
func (p *person) operation(id string) map[string]any {
	p.t.Helper()
	var o map[string]any
	patiently(p.t, "the operation ends", func() (bool, string) {
		o = p.ask("GET", "/operations/"+id, "")
		return o["state"] == "completed", fmt.Sprint(o)
	})
	return o
}

// TestServeWithTheOperator: all that serve does, over HTTP alone, with the rights of its role: a message dies, is found
// in its group with what the settings hide hidden, the cause is mended, and an operation sends it again and closes it.
func TestServeWithTheOperator(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		r := newRedriveRig(t, b, small, func(c *config.Config) { c.DLQ.RedactPaths, c.DLQ.RedactHeaders = []string{"$.card"}, []string{"trace"} })
		conn, err := r.pool.Acquire(t.Context())
		r.must(err)
		r.must(migrations.ApplyRoles(t.Context(), conn.Conn()))
		conn.Release()
		c := r.config
		c.Database.URL = config.DatabaseURL(r.db.As("postrider_relay"))
		a := run(t, Options{Config: c, Roles: []Role{Collector, Operator, HTTP}})
		waitReady(t, a)
		p := newPerson(t, a, "ann", access.Read, access.Redrive)
		large := fmt.Sprintf(`{"card": "4111", "n": 2, "filler": %q}`, strings.Repeat("x", smallTopic))
		r.write("k", `{"n": 1}`, large, `{"n": 3}`)
		entry := r.pending(1)[0]
		group := p.ask("GET", "/groups?error_code="+entry.ErrorCode, "")["items"].([]any)[0].(map[string]any)["group_uuid"].(string)
		_, shown, err := p.send(t.Context(), "GET", "/dlq/"+entry.UUID.String(), "")
		if err != nil || bytes.Contains(shown, []byte("4111")) || bytes.Contains(shown, []byte("t-1")) || !bytes.Contains(shown, []byte(dlq.Redacted)) {
			t.Errorf("%s, %v", shown, err)
		}
		if status, raw, err := p.send(t.Context(), "GET", "/dlq/"+entry.UUID.String()+"/payload", ""); status != http.StatusForbidden || err != nil {
			t.Errorf("a look without the scope: %d %s, %v", status, raw, err)
		}
		r.mend()
		o := p.ask("POST", "/operations", fmt.Sprintf(`{"kind": "redrive", "name": "incident", "scope": {"group": %q}, "options": {"canary": 1, "rate": 50}}`, group))
		id := o["operation_uuid"].(string)
		p.ask("POST", "/operations/"+id+"/start", "")
		if o = p.operation(id); o["done"] != 1.0 || o["delivered"] != 1.0 {
			t.Errorf("%v", o)
		}
		if e := r.closed(entry.UUID, dlq.ManuallyResolved); e.ResolvedBy != "postrider" {
			t.Errorf("%+v", e)
		}
		if g := p.ask("GET", "/groups/"+group, ""); g["state"] != "resolved" {
			t.Errorf("%v", g)
		}
		records := b.ReadAll(t, r.topic, 3)
		if last := records[len(records)-1]; len(records) != 3 || string(last.Value) != large || header(last, "trace") != "t-1" {
			t.Errorf("%d records, the last has %v", len(records), last.Headers)
		}
		done, err := a.Services().Access.History(t.Context(), access.DoneFilter{Actor: "ann"})
		if err != nil || len(done) != 3 || done[0].Action != "dlq.requeue" || done[1].Action != "operation.start" || done[2].Action != "operation.plan" {
			t.Errorf("the audit log: %+v, %v", done, err)
		}
	})
}

// TestTwoPeopleRedriveTheSameGroup at once, at two servers that both treat operations: by operations on the group, and by
// requeueing the same investigations. Nothing goes out twice, and what each is told adds up.
func TestTwoPeopleRedriveTheSameGroup(t *testing.T) {
	t.Parallel()
	kafkatest.Each(t, func(t *testing.T, b *kafkatest.Broker) {
		const n, chosen = 400, 60
		r := newRedriveRig(t, b, nil, nil)
		r.dead(n)
		entries := r.pending(n)
		var people []*person
		for _, name := range []string{"ann", "bob"} {
			a := run(t, Options{Config: r.config, Roles: []Role{Operator, HTTP}})
			waitReady(t, a)
			people = append(people, newPerson(t, a, name, access.Read, access.Redrive))
		}
		var ids []string
		for _, e := range entries[:chosen] {
			ids = append(ids, e.UUID.String())
		}
		asked, _ := json.Marshal(map[string][]string{"ids": ids}) // strings always can be
		operations, byHand := make([]string, 2), make([]int, 2)
		var wg sync.WaitGroup
		for i, p := range people {
			wg.Go(func() {
				o, err := p.do("POST", "/operations", fmt.Sprintf(`{"kind": "redrive", "name": %q, "scope": {"group": %q}, "options": {"rate": 500}}`, p.name, entries[0].GroupUUID))
				if err == nil {
					operations[i] = o["operation_uuid"].(string)
					_, err = p.do("POST", "/operations/"+operations[i]+"/start", "")
				}
				if err == nil {
					o, err = p.do("POST", "/dlq/requeue", string(asked))
				}
				if err != nil {
					t.Error(err)
					return
				}
				byHand[i] = len(o["requeued"].([]any))
			})
		}
		if wg.Wait(); t.Failed() {
			return
		}
		sum := byHand[0] + byHand[1]
		for i, p := range people {
			o := p.operation(operations[i])
			if o["failed"] != 0.0 || o["came_back"] != 0.0 || o["delivered"] != o["done"] || o["done"].(float64)+o["skipped"].(float64) != o["items"] {
				t.Errorf("%s: %v", p.name, o)
			}
			sum += int(o["done"].(float64))
		}
		if sum != n {
			t.Errorf("%d were sent again, want %d", sum, n)
		}
		r.wantEach(n)
		r.pending(0)
	})
}

// TestStopFinishesRequests: readiness says first that the process goes, while it still serves; then no new request is let
// in, and requests at work get their answer.
func TestStopFinishesRequests(t *testing.T) {
	t.Parallel()
	r := newRedriveRig(t, kafkatest.Kfake(t), nil, nil)
	r.dead(50)
	entries := r.pending(50)
	a, err := New(t.Context(), Options{Config: r.config})
	r.must(err)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(context.Background()) }()
	waitReady(t, a)
	p := newPerson(t, a, "ann", access.Admin)

	// The observer is stopped first and sees the process as clients do that may still come.
	var first []string
	a.lifecycle.add(step{name: "observer", limit: 20 * time.Second, stop: func(ctx context.Context) error {
		if status, raw, err := p.send(ctx, "GET", "/readyz", ""); status != http.StatusServiceUnavailable || err != nil || !bytes.Contains(raw, []byte(`"stopping": true`)) {
			first = append(first, fmt.Sprintf("readiness is %d %s, %v", status, raw, err))
		}
		if status, raw, err := p.send(ctx, "GET", "/status", ""); status != http.StatusOK || err != nil {
			first = append(first, fmt.Sprintf("the API says %d %s, %v", status, raw, err))
		}
		return nil
	}})
	// A request that is at work when the stop begins, until it is let go.
	lock, err := r.pool.Begin(t.Context())
	r.must(err)
	defer func() { _ = lock.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = lock.Exec(t.Context(), `select from postrider.dlq_entry where dlq_entry_uuid = $1 for update`, entries[0].UUID)
	r.must(err)
	type outcome struct {
		status int
		raw    []byte
		err    error
	}
	inHand := make(chan outcome, 1)
	go func() {
		status, raw, err := p.send(t.Context(), "POST", "/dlq/requeue", fmt.Sprintf(`{"ids": [%q]}`, entries[0].UUID))
		inHand <- outcome{status, raw, err}
	}()
	eventually(t, "the request is at work", func() (bool, string) {
		var waits bool
		r.must(r.pool.QueryRow(t.Context(), `select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waits))
		return waits, "no session waits"
	})
	// Others come all the time: each has its whole answer, or is not let in.
	load, stopLoad := context.WithCancel(t.Context())
	defer stopLoad()
	var mu sync.Mutex
	served, refused := 0, 0
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := 0; load.Err() == nil; k++ {
				method, path, body := "GET", "/dlq?page_size=5", ""
				if i%2 == 0 {
					method, path, body = "PATCH", "/dlq/"+entries[1+(i+8*k)%49].UUID.String(), `{"notes": "seen"}`
				}
				status, raw, err := p.send(load, method, path, body)
				mu.Lock()
				switch {
				case load.Err() != nil:
				case status == 0 && err != nil:
					refused++
				case err != nil || status != http.StatusOK || !json.Valid(raw) || !bytes.HasPrefix(raw, []byte(`{"ok":true`)):
					t.Errorf("%s %s: %d %q, %v", method, path, status, raw, err)
				default:
					served++
				}
				mu.Unlock()
			}
		})
	}
	eventually(t, "a load", func() (bool, string) {
		mu.Lock()
		defer mu.Unlock()
		return served > 50, fmt.Sprint(served)
	})
	stopped := make(chan error, 1)
	go func() { stopped <- a.Stop(context.Background()) }()
	eventually(t, "no person is let in", func() (bool, string) {
		conn, err := net.DialTimeout("tcp", a.Addr(), time.Second)
		if err != nil {
			return true, ""
		}
		conn.Close()
		return false, "a person is"
	})
	select {
	case got := <-inHand:
		t.Errorf("it was not waited for: %d %s, %v", got.status, got.raw, got.err)
	default:
	}
	r.must(lock.Rollback(t.Context()))
	got := <-inHand
	if got.err != nil || got.status != http.StatusOK || !bytes.Contains(got.raw, []byte(`"requeued":["`+entries[0].UUID.String())) {
		t.Errorf("the request in hand: %d %s, %v", got.status, got.raw, got.err)
	}
	if err := errors.Join(<-stopped, <-ended); err != nil {
		t.Error(err)
	}
	stopLoad()
	wg.Wait()
	for _, wrong := range first {
		t.Error(wrong)
	}
	if refused == 0 {
		t.Error("no request was refused")
	}
	var begun int
	r.must(r.pool.QueryRow(t.Context(), `select count(*) from postrider.dlq_redrive where dlq_entry_uuid = $1`, entries[0].UUID).Scan(&begun))
	if begun != 1 {
		t.Errorf("%d redrives were noted for the answer", begun)
	}
}
