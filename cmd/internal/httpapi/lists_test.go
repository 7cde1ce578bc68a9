package httpapi_test

import (
	"slices"
	"testing"
)

// TestListsRefuseBadPages: a list that cannot begin or end where the client says is refused with the reason. A page that looks
// right and is another one would be taken for the one that was asked for.
func TestListsRefuseBadPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.furnish()
	lists := 0
	for _, o := range r.spec.operations {
		if o.method != "GET" {
			continue
		}
		refused := map[string]string{"cursor": "x"} // no list knows this name: its parameter is called after
		for _, name := range []string{"limit", "page_size", "page", "offset", "after"} {
			if slices.Contains(o.params, name) {
				refused[name] = "x"
			}
		}
		if len(refused) == 1 {
			continue
		}
		lists++
		path := sample(o)
		for name, value := range refused {
			r.ask("GET", path+"?"+name+"="+value, "").is(400).says(name)
		}
		for _, name := range []string{"limit", "page_size"} {
			if refused[name] != "" {
				for _, value := range []string{"0", "-1", "1.5", "1e3", "9999999", ""} {
					r.ask("GET", path+"?"+name+"="+value, "").is(400).says("parameter " + name)
				}
			}
		}
	}
	if lists < 8 {
		t.Errorf("only %d lists", lists)
	}
}
