package access

import (
	"fmt"
	"testing"
	"time"
)

func TestKeysAreForgottenInTime(t *testing.T) {
	t.Parallel()
	var w working[Key]
	hash := secretHash{1}
	began := time.Now()
	w.keep("a", Key{ID: "a"}, hash, began, w.changes())
	for _, c := range []struct {
		name string
		id   string
		hash secretHash
		at   time.Time
		want bool
	}{
		{"at once", "a", hash, began, true}, {"to the end", "a", hash, began.Add(Remembered - 1), true},
		{"behind it", "a", hash, began.Add(Remembered), false}, {"another secret", "a", secretHash{2}, began, false},
		{"none", "a", secretHash{}, began, false}, {"another key", "b", hash, began, false},
	} {
		if k, ok := w.find(c.id, c.hash, c.at); ok != c.want || ok && k.ID != c.id {
			t.Errorf("%s: %+v, %v", c.name, k, ok)
		}
	}
	// What was asked for before a key was revoked may be that one.
	since := w.changes()
	w.forget("a")
	w.keep("a", Key{ID: "a"}, hash, began, since)
	if _, ok := w.find("a", hash, began); ok {
		t.Error("a key that was revoked while it was looked up is remembered")
	}
	w.keep("a", Key{ID: "a"}, hash, began, w.changes())
	if _, ok := w.find("a", hash, began); !ok {
		t.Error("after another was revoked nothing is remembered")
	}
	for i := range maxRemembered {
		w.keep(fmt.Sprint(i), Key{}, hash, began, w.changes())
	}
	if len(w.known) > maxRemembered {
		t.Errorf("%d keys are remembered", len(w.known))
	}
}
