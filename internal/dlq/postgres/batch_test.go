package postgres

import (
	"reflect"
	"testing"

	"github.com/postrider/postrider/message"
)

func TestPortions(t *testing.T) {
	t.Parallel()
	same := func(n int) int { return n }
	for _, test := range []struct {
		items []int
		want  [][]int
	}{
		{nil, nil},
		{[]int{1}, [][]int{{1}}},
		{[]int{4, 6, 1}, [][]int{{4, 6}, {1}}},
		{[]int{11, 1, 12}, [][]int{{11}, {1}, {12}}},
		{[]int{0, 0, 10, 0, 1}, [][]int{{0, 0, 10, 0}, {1}}},
	} {
		if got := portions(test.items, 10, same); !reflect.DeepEqual(got, test.want) {
			t.Errorf("portions(%v) = %v, want %v", test.items, got, test.want)
		}
	}
}

func TestParseHeaders(t *testing.T) {
	t.Parallel()
	want := []message.Header{{Name: "", Value: []byte("x")}, {Name: "n"}, {Name: "b", Value: []byte{0xff}}, {Name: "e", Value: []byte{}}}
	if got, err := parseHeaders(message.MarshalHeaders(want)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v", got, err)
	}
	for _, raw := range []string{`{`, `{}`, `[[1,"a"]]`, `[["a",1]]`, `[["a",{"base64":"?"}]]`} {
		if got, err := parseHeaders([]byte(raw)); err == nil {
			t.Errorf("%s is read as %v", raw, got)
		}
	}
}
