package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/internal/access"
	"github.com/postrider/postrider/cmd/internal/httpapi"
	"github.com/postrider/postrider/internal/dlq"
)

// Every route refuses every scope but its own, and admin, under both path styles. The table of scopes is written
// here once more, so that a check that is removed, or another scope, is noticed.
func TestEveryRouteRefusesOtherScopes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	wanted := func(o *operation) access.Scope {
		switch {
		case strings.HasPrefix(o.path, "/keys") || o.path == "/audit" || o.path == "/doctor" || strings.HasPrefix(o.path, "/sources") || o.id == "applyTemplate":
			return access.Admin
		case strings.HasSuffix(o.path, "/payload"):
			return access.ReadPayload
		case o.method == http.MethodGet:
			return access.Read
		case strings.HasSuffix(o.path, "/purge"), o.id == "runArchive":
			return access.Purge
		case o.path == "/dlq/requeue" || o.id == "redriveEvent" || strings.HasPrefix(o.path, "/operations"):
			return access.Redrive
		}
		return access.Resolve
	}
	for _, o := range r.spec.operations {
		for _, scope := range access.Scopes() {
			for _, prefix := range []string{"/v1", "/api/v1"} {
				got := r.askAt(prefix, o.method, sample(o), "", "X-API-Key", r.keys[scope])
				if may := scope == wanted(o) || scope == access.Admin; may == (got.Status == http.StatusForbidden) {
					t.Errorf("%s with the scope %s: %d, it needs %s", o.id, scope, got.Status, wanted(o))
				}
			}
		}
	}
}

// TestWhatNeedsTwoScopes: an operation of a kind needs the scope of the kind, too, whichever way it is commanded; so does
// changing a message before it is sent.
func TestWhatNeedsTwoScopes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	keyWith := func(scopes ...access.Scope) string {
		_, token, err := r.services.Access.Create(access.WithActor(t.Context(), access.Actor{Name: "test"}), access.NewKey{Name: fmt.Sprint(scopes), Scopes: scopes})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	all := slices.DeleteFunc(access.Scopes(), func(s access.Scope) bool { return s == access.Admin })
	without := func(s access.Scope) string {
		return keyWith(slices.DeleteFunc(slices.Clone(all), func(have access.Scope) bool { return have == s })...)
	}
	for i, c := range []struct {
		kind dlq.OperationKind
		also access.Scope
	}{{dlq.OpRedrive, access.Redrive}, {dlq.OpResolve, access.Resolve}, {dlq.OpPurge, access.Purge}} {
		body := fmt.Sprintf(`{"kind": %q, "name": "n", "scope": {"ids": [%q]}}`, c.kind, r.die(i+1))
		missing := without(c.also)
		r.ask("POST", "/operations", body, "X-API-Key", missing).is(403).says(string(c.also))
		enough := keyWith(access.Redrive, c.also)
		at := "/operations/" + r.ask("POST", "/operations", body, "X-API-Key", enough).is(201).text("operation_uuid")
		for _, do := range []string{"start", "pause", "resume", "abort"} {
			before := r.digest()
			r.ask("POST", at+"/"+do, "", "X-API-Key", missing).is(403).says(string(c.also))
			if after := r.digest(); after != before {
				t.Errorf("%s was refused, and changed something:\n%s", do, difference(before, after))
			}
			r.ask("POST", at+"/"+do, "", "X-API-Key", enough).is(200)
		}
	}
	id := r.die(9)
	edited := fmt.Sprintf(`{"ids": [%q], "edit": {"payload_text": "mended"}}`, id)
	r.ask("POST", "/dlq/requeue", edited, "X-API-Key", without(access.Edit)).is(403).says(string(access.Edit))
	r.ask("POST", "/dlq/requeue", edited, "X-API-Key", keyWith(access.Edit)).is(403).says(string(access.Redrive))
	if n := value[int](r, `select count(*) from postrider.outbox_event where payload = 'mended'`); n != 0 {
		t.Errorf("%d edited messages were sent", n)
	}
	r.ask("POST", "/dlq/requeue", edited, "X-API-Key", keyWith(access.Redrive, access.Edit)).is(200)
	if n := value[int](r, `select count(*) from postrider.outbox_event where payload = 'mended'`); n != 1 {
		t.Errorf("%d edited messages were sent, want 1", n)
	}
}

// TestRedrivesAreLimitedMore: what makes many others work counts for 25 of a key's requests, so of these it may make fewer.
func TestRedrivesAreLimitedMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"http.requests_per_second": "1", "http.request_burst": "50"})
	costly := []string{"requeue", "releaseKeys", "purgeEntries", "fetchOriginal", "resolveGroup", "mergeGroup", "splitGroup", "planOperation", "purgeDelivered",
		"redriveEvent", "runDetector", "runArchive", "retryTasks"}
	ctx, found := access.WithActor(t.Context(), access.Actor{Name: "test"}), 0
	for _, o := range r.spec.operations {
		_, key, err := r.services.Access.Create(ctx, access.NewKey{Name: o.id, Scopes: []access.Scope{access.Admin}})
		if err != nil {
			t.Fatal(err)
		}
		var last reply
		for range 3 {
			last = r.ask(o.method, sample(o), "", "X-API-Key", key)
		}
		if dear := slices.Contains(costly, o.id); dear != (last.Status == http.StatusTooManyRequests) || dear && last.Header.Get("Retry-After") == "" {
			t.Errorf("%s: the third request is answered with %d", o.id, last.Status)
		} else if dear {
			found++
		}
	}
	if found != len(costly) {
		t.Errorf("%d of %d are limited more", found, len(costly))
	}
}

// Of all that a process serves, only probes, metrics and the description are open.
func TestWhatIsOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	server := r.listen(nil)
	get := func(method, path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+server.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if status, body := get("GET", path); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := get("GET", "/api/openapi.yaml"); status != 200 || body != string(httpapi.OpenAPI()) {
		t.Errorf("/api/openapi.yaml: %d, %d bytes", status, len(body))
	}
	for _, o := range r.spec.operations {
		for _, prefix := range []string{"/v1", "/api/v1"} {
			for _, method := range []string{o.method, "HEAD", "PUT", "DELETE"} {
				if status, body := get(method, prefix+sample(o)); status != 401 && status != 405 && status != 404 || method == o.method && status != 401 {
					t.Errorf("%s %s without a key: %d %s", method, prefix+sample(o), status, body)
				}
			}
		}
	}
}
