package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// apiKinds are the kinds of questions in the mix.
var apiKinds = []string{"list", "filter", "get", "stats"}

// apiQuestion is something that is asked of the API by GET.
type apiQuestion struct {
	kind, name string
	weight     int
	path       func(*rand.Rand) string // from /v1 on
	finds      string                  // the list in the answer that must not be empty; "" where it may
}

// drawQuestion draws one by the weights.
func drawQuestion(questions []apiQuestion, random *rand.Rand) apiQuestion {
	sum := 0
	for _, q := range questions {
		sum += q.weight
	}
	at := random.IntN(sum)
	for _, q := range questions {
		if at -= q.weight; at < 0 {
			return q
		}
	}
	panic("the weights are not their sum")
}

// apiKnown is what a person at the desk has seen already.
type apiKnown struct {
	entries, groups, topics, codes []string
	outage, next                   string // the group of the old outage; where the second page begins
}

// apiSample reads what questions are about.
func (d *database) apiSample(ctx context.Context, asker *apiAsker) (*apiKnown, error) {
	k := &apiKnown{}
	for _, c := range []struct {
		into *[]string
		sql  string
	}{
		// Half of them new ones, half any.
		{&k.entries, `(select dlq_entry_uuid::text from postrider.dlq_entry order by created_at desc limit 1000)
			union all (select dlq_entry_uuid::text from postrider.dlq_entry where abs(hashtext(subject_id)) % greatest((select count(*) from postrider.dlq_entry) / 1000, 1) = 0)`},
		{&k.groups, `select dlq_group_uuid::text from postrider.dlq_group where entries > 0`},
		{&k.topics, `select distinct topic from postrider.dlq_group where entries > 0 and topic is not null`},
		{&k.codes, `select distinct error_code from postrider.dlq_group where entries > 0 and error_code is not null`},
	} {
		rows, err := d.conn.Query(ctx, c.sql)
		if err != nil {
			return nil, err
		}
		if *c.into, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return nil, err
		}
	}
	if err := d.conn.QueryRow(ctx, `select dlq_group_uuid::text from postrider.dlq_group order by entries desc limit 1`).Scan(&k.outage); err != nil {
		return nil, err
	}
	raw, err := asker.get(ctx, "/dlq")
	if err != nil {
		return nil, err
	}
	var page struct{ Data struct{ Next string } }
	if err := json.Unmarshal(raw, &page); err != nil {
		return nil, err
	}
	k.next = page.Data.Next
	return k, nil
}

// apiQuestions are the mix.
func apiQuestions(k *apiKnown) []apiQuestion {
	one := func(of []string, r *rand.Rand) string { return of[r.IntN(len(of))] }
	list := func(kind, name string, weight int, params ...string) apiQuestion {
		return apiQuestion{kind, name, weight, func(*rand.Rand) string { return listPath(params...) }, "items"}
	}
	by := func(name string, weight int, param string, of []string, more ...string) apiQuestion {
		return apiQuestion{"filter", name, weight, func(r *rand.Rand) string { return listPath(append([]string{param, one(of, r)}, more...)...) }, ""}
	}
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	get := func(name string, weight int, from string, of []string) apiQuestion {
		return apiQuestion{"get", name, weight, func(r *rand.Rand) string { return from + one(of, r) }, ""}
	}
	return []apiQuestion{
		list("list", "newest", 16),
		{"list", "page 2 to 40", 7, func(r *rand.Rand) string { return listPath("page", fmt.Sprint(2+r.IntN(39))) }, ""},
		list("list", "next page by cursor", 4, "after", k.next),
		list("list", "by last change, oldest first", 2, "order_by", "updated_at", "order_dir", "asc"),
		{"list", "page 4001", 1, func(*rand.Rand) string { return listPath("page", "4001") }, ""},

		list("filter", "pending", 8, "resolution_status", "pending"),
		by("topic", 6, "topic", k.topics),
		by("topic, pending", 6, "topic", k.topics, "resolution_status", "pending"),
		by("error code, pending", 3, "error_code", k.codes, "resolution_status", "pending"),
		list("filter", "dlq_reason", 2, "dlq_reason", "max_retries_exceeded"),
		by("group, pending", 3, "group", k.groups, "resolution_status", "pending"),
		list("filter", "group of the old outage", 1, "group", k.outage),
		{"filter", "last day", 2, func(*rand.Rand) string { return listPath("from", ago(24*time.Hour)) }, ""},
		{"filter", "last ten days, pending", 2, func(*rand.Rand) string { return listPath("from", ago(240*time.Hour), "resolution_status", "pending") }, ""},
		list("filter", "assignee", 1, "assignee", "ada"),
		by("topic, pending, by last change", 1, "topic", k.topics, "resolution_status", "pending", "order_by", "updated_at"),

		get("investigation", 20, "/dlq/", k.entries),
		get("group", 5, "/groups/", k.groups),

		{"stats", "stats", 6, func(*rand.Rand) string { return "/dlq/stats" }, "recent"},
		{"stats", "groups, newest first", 4, func(*rand.Rand) string { return "/groups" }, "items"},
	}
}

// searchQuestions are the searches for a part of a message.
func searchQuestions() []apiQuestion {
	search := func(name, finds string, params ...string) apiQuestion {
		return apiQuestion{"search", "message: " + name, 1, func(r *rand.Rand) string {
			p := make([]string, len(params))
			for i, text := range params {
				p[i] = strings.ReplaceAll(text, "#", fmt.Sprint(10_000+r.IntN(90_000)))
			}
			return listPath(p...)
		}, finds}
	}
	return []apiQuestion{
		search("in many", "items", "reason", "timed OUT after"),
		search("in few", "", "reason", "customer #"),
		search("in one at most", "", "reason", "order # "),
		search("in none", "", "reason", absentWords),
		search("of the old outage", "items", "reason", outageWords),
		search("of the old outage, second page", "items", "reason", outageWords, "page", "2"),
		search("of the old outage, oldest first", "items", "reason", outageWords, "order_dir", "asc"),
		search("of the old outage, pending", "items", "reason", outageWords, "resolution_status", "pending"),
		search("of the old outage, by last change", "items", "reason", outageWords, "order_by", "updated_at"),
		search("of the old outage, before it ended", "items", "reason", outageWords, "to", time.Now().Add(-81*24*time.Hour+90*time.Minute).UTC().Format(time.RFC3339)),
		search("a word that the old outage has, too", "items", "reason", "payments"),
		search("in few, of a topic", "", "reason", "customer #", "topic", "shop.topic-003"),
		search("two letters that none has", "", "reason", "qx"),
	}
}

// listPath is the path of a list with these parameters, names and values in turn.
func listPath(params ...string) string {
	values := url.Values{}
	for i := 0; i < len(params); i += 2 {
		values.Set(params[i], params[i+1])
	}
	return "/dlq?" + values.Encode()
}

// apiAsker is a client of the API.
type apiAsker struct {
	base, key string
	http      *http.Client
}

func newAPIAsker(base, key string, clients int) *apiAsker {
	return &apiAsker{base + "/v1", key, &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
}

func (a *apiAsker) close() { a.http.CloseIdleConnections() }

// get returns the answer to a question. Anything but success is an error.
func (a *apiAsker) get(ctx context.Context, path string) ([]byte, error) {
	return a.do(ctx, http.MethodGet, path, nil)
}

func (a *apiAsker) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-API-Key", a.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	return raw, err
}

// check asks once and looks whether what must be found is.
func (a *apiAsker) check(ctx context.Context, q apiQuestion, random *rand.Rand) error {
	raw, err := a.get(ctx, q.path(random))
	if err != nil {
		return fmt.Errorf("%s: %w", q.name, err)
	}
	var answer struct {
		OK   bool
		Data map[string]json.RawMessage
	}
	if err := json.Unmarshal(raw, &answer); err != nil || !answer.OK {
		return fmt.Errorf("%s: the answer is %.200s, %w", q.name, raw, err)
	}
	var found []json.RawMessage
	if q.finds == "" {
		return nil
	}
	if err := json.Unmarshal(answer.Data[q.finds], &found); err != nil || len(found) == 0 {
		return fmt.Errorf("%s: nothing was found: %.200s, %w", q.name, raw, err)
	}
	return nil
}

// purge removes investigations older than a time; if reason is given, only investigations with it as a part of their
// message.
func (a *apiAsker) purge(ctx context.Context, than time.Time, reason string) error {
	request := map[string]any{"older_than": than.UTC().Format(time.RFC3339)}
	if reason != "" {
		request["reason"] = reason
	}
	body, err := json.Marshal(request)
	if err == nil {
		_, err = a.do(ctx, http.MethodPost, "/dlq/purge", body)
	}
	return err
}
