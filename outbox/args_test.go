package outbox

import "testing"

// TestNullIsNotANilSlice: some database/sql drivers write a nil []byte as an empty value, which would
// turn tombstones into empty values.
func TestNullIsNotANilSlice(t *testing.T) {
	t.Parallel()
	args, err := Message{Topic: "t"}.args()
	if err != nil {
		t.Fatal(err)
	}
	for n, arg := range args {
		if n != 0 && n != 3 && arg != nil {
			t.Errorf("argument $%d is %#v, want null", n+1, arg)
		}
	}
	if args, err = (Message{Topic: "t", Key: []byte{}, Payload: []byte{}}).args(); err != nil || args[1] == nil || args[2] == nil {
		t.Errorf("empty key and payload are %#v and %#v, %v", args[1], args[2], err)
	}
}
