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
		hs, err := message.ParseHeaders(raw)
		hidden := marshal(Redacted)
		if err == nil {
			hidden = message.MarshalHeaders(r.Headers(hs))
		}
		if err != nil || r.hidesAny(hs) {
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

func (r *Redactor) hidesAny(hs []message.Header) bool {
	for _, h := range hs {
		if r.hidesHeader(h) && string(h.Value) != Redacted {
			return true
		}
	}
	return false
}
