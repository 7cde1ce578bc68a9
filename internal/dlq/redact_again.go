package dlq

import (
	"encoding/json"

	"github.com/postrider/postrider/message"
)

// Again applies the rules to a snapshot that was stored earlier, perhaps before the rules were made, as Snapshot would
// today. It is the same text where nothing is to be hidden.
func (r *Redactor) Again(of SubjectType, stored json.RawMessage) json.RawMessage {
	if r == nil || len(stored) == 0 {
		return stored
	}
	if of == SubjectTask {
		return r.JSON(stored, "context")
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(stored, &members) != nil || members == nil {
		return marshal(Redacted)
	}
	changed := r.payloadAgain(members)
	if raw, there := members["headers"]; there && r.hasHeaders() {
		if hidden, hides := r.headersAgain(raw); hides {
			members["headers"], changed = hidden, true
		}
	}
	if !changed {
		return stored
	}
	return marshal(members)
}

// payloadAgain hides what rules name in a stored payload; one that cannot be searched is left out, as by Snapshot.
func (r *Redactor) payloadAgain(members map[string]json.RawMessage) (changed bool) {
	payload, there := members["payload"]
	if !there || !r.hasPaths() || string(payload) == "null" {
		return false
	}
	var how encoding
	if json.Unmarshal(members["payload_encoding"], &how) != nil || how != asJSON {
		delete(members, "payload")
		delete(members, "payload_encoding")
		members["payload_truncated"] = marshal("left out because redaction could not be applied to it")
		return true
	}
	members["payload"] = r.JSON(payload)
	return string(members["payload"]) != string(payload)
}

// headersAgain hides what rules name in stored headers, which are pairs of a name and a value, and reports whether there was
// something to hide. The headers are not read as those of an event: one that no event may have, for example without a
// name, stands beside others.
func (r *Redactor) headersAgain(stored json.RawMessage) (hidden json.RawMessage, hides bool) {
	var pairs [][2]json.RawMessage
	if json.Unmarshal(stored, &pairs) != nil {
		return marshal(Redacted), true
	}
	for i, pair := range pairs {
		var name, value string
		if json.Unmarshal(pair[0], &name) != nil {
			return marshal(Redacted), true
		}
		_ = json.Unmarshal(pair[1], &value) // another value is no text: a rule goes by the name
		if r.hidesHeader(message.Header{Name: name, Value: []byte(value)}) && value != Redacted {
			pairs[i][1], hides = marshal(Redacted), true
		}
	}
	return marshal(pairs), hides
}
